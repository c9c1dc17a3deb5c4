//! Dates as seconds.

/// Seconds from 1970 to a date (year, month, day) and time (hours, minutes, seconds), all in one zone; `None` if there is no
/// such time.
pub fn seconds([year, month, day]: [u32; 3], [hours, minutes, seconds]: [u32; 3]) -> Option<f64> {
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // A minute may have a second more.
    if !is_date || hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    // A year from March to February, so that the odd day is its last: Hinnant, "chrono-compatible low-level date
    // algorithms", days_from_civil.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    Some(f64::from(days) * 86_400.0 + f64::from(hours * 3600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted() {
        assert_eq!(seconds([1970, 1, 1], [0, 0, 0]), Some(0.0));
        assert_eq!(seconds([2000, 3, 1], [0, 0, 0]), Some(951_868_800.0));
        assert_eq!(seconds([2026, 11, 21], [18, 41, 10]), Some(1_795_286_470.0));
        let day = |date: [u32; 3]| seconds(date, [0, 0, 0]).unwrap();
        assert_eq!(day([2024, 3, 1]) - day([2024, 2, 29]), 86_400.0);
        assert_eq!(day([2027, 1, 1]) - day([2026, 12, 31]), 86_400.0);
        for (date, time) in [([2026, 13, 1], [0, 0, 0]), ([2026, 1, 0], [0, 0, 0]), ([2026, 1, 1], [24, 0, 0])] {
            assert_eq!(seconds(date, time), None);
        }
    }
}
