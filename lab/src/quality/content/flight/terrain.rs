//! The country: heights and colours on a grid that repeats, in several sizes for several distances.

use super::hash;

/// Cells across; a power of two, so that the country repeats by masking.
const SIZE: usize = 2_048;
/// Metres across a cell at full size.
const CELL: f32 = 0.25;
/// Sizes in which the country is kept, each half the one before.
pub const LEVELS: usize = 7;

/// What is seen of a cell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cell {
    /// Metres.
    pub height: f32,
    pub y: u8,
    pub u: u8,
    pub v: u8,
    /// How rough its upright sides look, in steps of luma: leaves.
    pub leaves: u8,
}

/// The country.
#[derive(Debug)]
pub struct Terrain {
    levels: Vec<Vec<Cell>>,
}

impl Terrain {
    pub fn new(seed: u32) -> Self {
        let hills = Noise::new(seed, &[(512, 9.0), (128, 3.0), (32, 0.5), (8, 0.12)]);
        let grain = Noise::new(seed ^ 0x51, &[(64, 16.0), (16, 13.0), (4, 15.0), (2, 16.0)]);
        let tint = Noise::new(seed ^ 0x77, &[(256, 9.0), (32, 5.0)]);
        let mut ground: Vec<Cell> = Vec::with_capacity(SIZE * SIZE);
        for z in 0..SIZE as u32 {
            for x in 0..SIZE as u32 {
                let (rough, tint) = (grain.at(x, z), tint.at(x, z));
                let field = hash(x / 192 + (z / 256 % 2) * 5, z / 256, seed ^ 0x9F) % 5;
                let (luma, u, v) = FIELDS[field as usize];
                // Ploughed land has furrows.
                let furrow = if field == 2 && (x / 3) % 2 == 0 { -16.0 } else { 0.0 };
                ground.push(Cell {
                    height: hills.at(x, z),
                    y: (luma + rough + furrow + tint).clamp(20.0, 230.0) as u8,
                    u: (u + tint * 0.4) as u8,
                    v: (v - tint * 0.5) as u8,
                    leaves: 6,
                });
            }
        }
        plant(&mut ground, seed);
        let mut levels = vec![ground];
        for level in 1..LEVELS {
            levels.push(halved(&levels[level - 1], SIZE >> (level - 1)));
        }
        Self { levels }
    }

    /// The cell at a place in metres, at a size: level 0 has cells of a quarter of a metre, each further one cells twice as large.
    #[inline]
    pub fn cell(&self, level: usize, x: f32, z: f32) -> &Cell {
        let (column, row) = ((x / CELL) as i32 as usize & (SIZE - 1), (z / CELL) as i32 as usize & (SIZE - 1));
        &self.levels[level][(row >> level) * (SIZE >> level) + (column >> level)]
    }

    /// Height of the country around a place, in metres, trees included.
    pub fn height(&self, x: f32, z: f32) -> f32 {
        self.cell(LEVELS - 1, x, z).height
    }
}

/// Luma and chroma of meadow, wood floor, ploughed land, corn and stubble.
const FIELDS: [(f32, f32, f32); 5] =
    [(92.0, 106.0, 118.0), (66.0, 114.0, 120.0), (84.0, 116.0, 142.0), (132.0, 98.0, 136.0), (116.0, 110.0, 132.0)];

/// Trees: domes with rough surfaces, more of them in some parts than in others.
fn plant(ground: &mut [Cell], seed: u32) {
    const PLOT: u32 = 24;
    for plot_z in 0..SIZE as u32 / PLOT {
        for plot_x in 0..SIZE as u32 / PLOT {
            let luck = hash(plot_x, plot_z, seed ^ 0x3333);
            let is_wood = hash(plot_x / 9, plot_z / 9, seed ^ 0x4444).is_multiple_of(3);
            if luck % 16 >= if is_wood { 8 } else { 1 } {
                continue;
            }
            let radius = 7 + (luck >> 8) % 8;
            let tall = 5.0 + ((luck >> 12) % 64) as f32 * 0.11;
            let (x, z) = (plot_x * PLOT + (luck >> 18) % PLOT, plot_z * PLOT + (luck >> 23) % PLOT);
            let colour = (luck >> 4) % 16;
            grow(ground, (x, z), radius, tall, colour, seed);
        }
    }
}

fn grow(ground: &mut [Cell], (x, z): (u32, u32), radius: u32, tall: f32, colour: u32, seed: u32) {
    let reach = radius as i32;
    for dz in -reach..=reach {
        for dx in -reach..=reach {
            let distance = (dx * dx + dz * dz) as f32 / (radius * radius) as f32;
            if distance > 1.0 {
                continue;
            }
            let (cx, cz) = ((x as i32 + dx) as usize & (SIZE - 1), (z as i32 + dz) as usize & (SIZE - 1));
            let cell = &mut ground[cz * SIZE + cx];
            let luck = hash(cx as u32, cz as u32, seed ^ 0x5555);
            let leaf = (luck % 64) as f32;
            cell.height += tall * (1.0 - distance * 0.6) + leaf * 0.018;
            cell.y = (44.0 + leaf * 0.8 + colour as f32 * 1.5 + (1.0 - distance) * 14.0) as u8;
            cell.u = (110 + colour / 3) as u8;
            cell.v = (112 + colour / 2) as u8;
            cell.leaves = 26;
        }
    }
}

/// The same country with cells twice as large, and so half as many each way.
fn halved(full: &[Cell], size: usize) -> Vec<Cell> {
    let half = size / 2;
    (0..half * half)
        .map(|n| {
            let corner = n / half * 2 * size + n % half * 2;
            let four = [corner, corner + 1, corner + size, corner + size + 1].map(|at| full[at]);
            let mean = |value: fn(&Cell) -> u8| (four.iter().map(|cell| u32::from(value(cell))).sum::<u32>() / 4) as u8;
            Cell {
                height: (four[0].height + four[1].height + four[2].height + four[3].height) / 4.0,
                y: mean(|cell| cell.y),
                u: mean(|cell| cell.u),
                v: mean(|cell| cell.v),
                leaves: mean(|cell| cell.leaves),
            }
        })
        .collect()
}

/// Layers of noise added up: the distance of its values in cells, and how strong it is to either side.
struct Noise {
    layers: Vec<(u32, f32, u32)>,
}

impl Noise {
    fn new(seed: u32, layers: &[(u32, f32)]) -> Self {
        let number = |(n, (cell, weight)): (usize, &(u32, f32))| (*cell, *weight, seed.wrapping_add(n as u32 * 0x1001));
        Self { layers: layers.iter().enumerate().map(number).collect() }
    }

    fn at(&self, x: u32, z: u32) -> f32 {
        self.layers.iter().map(|(cell, weight, seed)| layer(x, z, *cell, *seed) * weight).sum()
    }
}

/// Noise in -1 to 1 between values at the corners of cells; repeats with the country.
fn layer(x: u32, z: u32, cell: u32, seed: u32) -> f32 {
    let cells = SIZE as u32 / cell;
    let corner =
        |i: u32, j: u32| (hash((x / cell + i) % cells, (z / cell + j) % cells, seed) & 0xFFFF) as f32 / 32_768.0 - 1.0;
    let curve = |at: u32| {
        let t = (at % cell) as f32 / cell as f32;
        t * t * (3.0 - 2.0 * t)
    };
    let (tx, tz) = (curve(x), curve(z));
    let near = corner(0, 0) + (corner(1, 0) - corner(0, 0)) * tx;
    let far = corner(0, 1) + (corner(1, 1) - corner(0, 1)) * tx;
    near + (far - near) * tz
}
