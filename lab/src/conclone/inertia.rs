//! What do the modems weigh on the aircraft? Moments of inertia of a quadcopter: a ball in the middle, four motors at the end of
//! arms, and modems at those ends, in pairs.

use serde::Serialize;

use super::{DomainError, must};

/// An airframe.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Airframe {
    /// All of it with one modem, kg: M_T.
    pub mass_kg: f64,
    /// Radius of the ball, m: R_C.
    pub radius_m: f64,
    /// From the middle to a motor, m: L.
    pub arm_m: f64,
    /// Of what sits at the end of an arm, kg: m_r. The paper does not say it; with 30 g all of its Table 1 comes out.
    pub motor_kg: f64,
    /// Of a modem, kg: m_i.
    pub modem_kg: f64,
}

/// Moments of inertia about the three axes, kg m².
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moments {
    /// About the x-axis: pitch in the paper.
    pub xx: f64,
    /// About the y-axis: roll in the paper.
    pub yy: f64,
    /// About the z-axis: yaw.
    pub zz: f64,
}

impl Default for Airframe {
    /// The paper's DJI F450.
    fn default() -> Self {
        Self { mass_kg: 1.013, radius_m: 0.07, arm_m: 0.25, motor_kg: 0.030, modem_kg: 0.016 }
    }
}

impl Airframe {
    /// Says what is wrong with it.
    ///
    /// # Errors
    /// [`DomainError`]: none of it may be negative, and there is a mass.
    pub fn check(&self) -> Result<(), DomainError> {
        must::be_positive("the mass of the aircraft", self.mass_kg)?;
        must::not_be_negative("the radius of its body", self.radius_m)?;
        must::not_be_negative("the length of its arms", self.arm_m)?;
        must::not_be_negative("the mass at the end of an arm", self.motor_kg)?;
        must::not_be_negative("the mass of a modem", self.modem_kg)
    }

    /// With `n` modems, as printed [CONCLONE eq. 16]. `None` without a modem: the mass is that with one.
    ///
    /// What is added about z is 4 L² ⌊n/2⌋ m_i, twice what is added about x and y together.
    pub fn moments_paper(&self, n: u32) -> Option<Moments> {
        let Moments { xx, yy, .. } = self.moments(n)?;
        let zz = self.ball(n) + 4.0 * self.arm_m.powi(2) * (self.motor_kg + f64::from(n / 2) * self.modem_kg);
        Some(Moments { xx, yy, zz })
    }

    /// The same with a moment about z that agrees with the other two: what is at the ends of the arms lies in a plane, so it
    /// has about z what it has about x and y together. `None` without a modem.
    pub fn moments(&self, n: u32) -> Option<Moments> {
        if n == 0 {
            return None;
        }
        // ⌊(n + 2)/4⌋ without a sum that could overflow.
        let (x_modems, y_modems) = (n / 4, n / 4 + u32::from(n % 4 >= 2));
        let ends = |modems| 2.0 * self.arm_m.powi(2) * (self.motor_kg + f64::from(modems) * self.modem_kg);
        let ball = self.ball(n);
        let (x_ends, y_ends) = (ends(x_modems), ends(y_modems));
        Some(Moments { xx: ball + x_ends, yy: ball + y_ends, zz: ball + x_ends + y_ends })
    }

    /// 2/5 M R².
    fn ball(&self, n: u32) -> f64 {
        let modems = f64::from(n.saturating_sub(1));
        0.4 * (self.mass_kg + modems * self.modem_kg) * self.radius_m.powi(2)
    }
}
