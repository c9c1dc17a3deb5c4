//! Captures as pcapng (draft-ietf-opsawg-pcapng): IP packets with times to the nanosecond, directions and comments.
//!
//! Only the blocks that are needed: section header, interface description, enhanced packet. Wireshark shows comments as
//! `frame.comment`.

use std::io::{self, Write};

/// Of each packet at most so many bytes are kept; its true length is written beside.
pub const SNAP_LENGTH: usize = 2048;

/// `LINKTYPE_RAW`: packets begin with their IP header.
const RAW_IP: u16 = 101;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// A packet as it is captured.
#[derive(Debug, Clone, Copy)]
pub struct Captured<'a> {
    /// Number of the interface.
    pub interface: u32,
    /// Nanoseconds since the start of the run, which stands as 1 January 1970.
    pub nanos: u64,
    /// Bytes on the wire.
    pub length: usize,
    /// The packet from its IP header on, or its beginning.
    pub data: &'a [u8],
    /// It came to this node; else it left it.
    pub is_inbound: bool,
    /// What happened to it; nothing if empty.
    pub comment: &'a str,
}

/// Writes one section.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section of raw IP interfaces with these names.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn new(to: W, comment: &str, interfaces: &[String]) -> io::Result<Self> {
        let mut writer = Self { to, block: Vec::with_capacity(4096) };
        writer.begin(SECTION);
        writer.block.extend(0x1a2b_3c4d_u32.to_le_bytes());
        writer.block.extend(1u16.to_le_bytes());
        writer.block.extend(0u16.to_le_bytes());
        // The section's length is not known.
        writer.block.extend(u64::MAX.to_le_bytes());
        writer.option(OPT_COMMENT, comment.as_bytes());
        writer.option(SHB_USERAPPL, b"aquila lab");
        writer.end()?;
        for name in interfaces {
            writer.begin(INTERFACE);
            writer.block.extend(RAW_IP.to_le_bytes());
            writer.block.extend(0u16.to_le_bytes());
            writer.block.extend((SNAP_LENGTH as u32).to_le_bytes());
            writer.option(IF_NAME, name.as_bytes());
            writer.option(IF_TSRESOL, &[9]);
            writer.end()?;
        }
        Ok(writer)
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn packet(&mut self, packet: &Captured<'_>) -> io::Result<()> {
        let data = &packet.data[..packet.data.len().min(SNAP_LENGTH)];
        let words = [
            packet.interface,
            (packet.nanos >> 32) as u32,
            packet.nanos as u32,
            data.len() as u32,
            packet.length.max(data.len()) as u32,
        ];
        self.begin(PACKET);
        words.iter().for_each(|word| self.block.extend(word.to_le_bytes()));
        self.block.extend(data);
        self.pad();
        self.option(EPB_FLAGS, &(if packet.is_inbound { 1u32 } else { 2 }).to_le_bytes());
        if !packet.comment.is_empty() {
            self.option(OPT_COMMENT, packet.comment.as_bytes());
        }
        self.end()
    }

    /// What is buffered goes to the writer's end.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.block.extend(value);
        self.pad();
    }

    /// To a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Ends the options and the block, whose length stands at both of its ends.
    fn end(&mut self) -> io::Result<()> {
        self.block.extend([0; 4]);
        let length = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend(length);
        self.to.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Kinds and bodies of all blocks.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = word(&bytes[4..]) as usize;
            assert!(length.is_multiple_of(4) && word(&bytes[length - 4..]) as usize == length);
            found.push((word(bytes), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn a_section_with_an_interface_and_a_packet() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, "a run", &["lte".into()]).unwrap();
        let packet = Captured {
            interface: 0,
            nanos: (5 << 32) + 7,
            length: 1500,
            data: &[0x45, 1, 2],
            is_inbound: true,
            comment: "dropped",
        };
        writer.packet(&packet).unwrap();
        let blocks = blocks(&bytes);
        assert_eq!(blocks.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [SECTION, INTERFACE, PACKET]);
        let body = &blocks[2].1;
        assert_eq!(body[..20], [0, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 220, 5, 0, 0]);
        assert_eq!(body[20..24], [0x45, 1, 2, 0]);
        assert_eq!(body[24..32], [2, 0, 4, 0, 1, 0, 0, 0]);
        assert_eq!(&body[32..44], b"\x01\x00\x07\x00dropped\0");
    }

    proptest! {
        #[test]
        fn blocks_are_well_formed(
            data in prop::collection::vec(any::<u8>(), 0..3000),
            comment in ".{0,200}",
            nanos in any::<u64>(),
            length in 0usize..9000,
        ) {
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes, &comment, &[comment.clone(), "b".into()]).unwrap();
            let packet = Captured { interface: 1, nanos, length, data: &data, is_inbound: false, comment: &comment };
            writer.packet(&packet).unwrap();
            prop_assert_eq!(blocks(&bytes).len(), 4);
        }
    }
}
