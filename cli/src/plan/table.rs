//! Tables of text.

use std::io::{self, Write};

/// A table with a header.
#[derive(Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// One row more.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// For the terminal: numbers to the right.
    pub fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let widths = self.widths();
        for row in self.all() {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{}{cell}", blank(cell, *width))).collect();
            writeln!(out, "  {}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }

    /// For a document, and still to be read on a terminal.
    pub fn write_markdown(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let widths = self.widths();
        for (number, row) in self.all().enumerate() {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell}{}", blank(cell, *width))).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                writeln!(out, "| {} |", rules.join(" | "))?;
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }

    /// At least 3, as Markdown wants its rules.
    fn widths(&self) -> Vec<usize> {
        let of_column =
            |column: usize| self.all().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        (0..self.header.len()).map(|column| of_column(column).unwrap_or(0).max(3)).collect()
    }
}

/// What a cell lacks. Characters are counted: ² and − have more bytes than one.
fn blank(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(&["a", "kg m²"]);
        table.push(vec!["long".into(), "1".into()]);
        let (mut text, mut markdown) = (Vec::new(), Vec::new());
        table.write(&mut text).unwrap();
        table.write_markdown(&mut markdown).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "     a  kg m²\n  long      1\n");
        let wanted = "| a    | kg m² |\n| ---- | ----- |\n| long | 1     |\n";
        assert_eq!(String::from_utf8(markdown).unwrap(), wanted);
    }
}
