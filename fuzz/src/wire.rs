//! Wire codecs: what is read is written again the same.

use aquila_proto::wire::datagram::{BulkPiece, DatagramHeader, Heartbeat, RecoveryRequest};
use aquila_proto::wire::feedback::{Feedback, MAX_REPORTED};
use aquila_proto::wire::history::History;
use aquila_proto::wire::message::{Hello, MessageHeader, put_copy, take_copy};
use aquila_proto::wire::receipt::Receipt;
use aquila_proto::wire::varint::{put_varint, take_varint, varint_len};

/// Longest texts that a hello may have.
const MAX_TEXT: usize = 64;

/// The first byte chooses the codec.
pub fn wire(data: &[u8]) {
    let Some((&codec, bytes)) = data.split_first() else { return };
    let mut out = Vec::new();
    match codec % 11 {
        0 => {
            let mut rest = bytes;
            while let Some(value) = take_varint(&mut rest) {
                out.clear();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                assert_eq!(take_varint(&mut out.as_slice()), Some(value));
            }
        }
        1 => {
            if let Some((header, body)) = DatagramHeader::parse(bytes) {
                header.put(&mut out);
                assert!(out.len() <= DatagramHeader::MAX_LEN);
                out.extend_from_slice(body);
                assert_eq!(DatagramHeader::parse(&out), Some((header, body)));
            }
        }
        2 => {
            if let Some(heartbeat) = Heartbeat::parse(bytes) {
                heartbeat.put(&mut out);
                assert_eq!(Heartbeat::parse(&out), Some(heartbeat));
            }
        }
        3 => {
            if let Some(request) = RecoveryRequest::parse(bytes) {
                request.put(&mut out);
                assert_eq!(RecoveryRequest::parse(&out), Some(request));
            }
        }
        4 => {
            if let Some(feedback) = Feedback::parse(bytes) {
                assert!(feedback.arrivals.len() <= MAX_REPORTED);
                feedback.put(&mut out);
                assert_eq!(Feedback::parse(&out[1..]), Some(feedback));
            }
        }
        5 => {
            if let Some((header, frames)) = MessageHeader::parse(bytes) {
                header.put_on_stream(&mut out);
                assert!(out.len() <= MessageHeader::MAX_LEN);
                out.extend_from_slice(frames);
                assert_eq!(MessageHeader::parse(&out[1..]), Some((header, frames)));
            }
        }
        8 => {
            if let Some(receipt) = Receipt::parse(bytes) {
                receipt.put(&mut out);
                assert_eq!(Receipt::parse(&out), Some(receipt));
                let told: Vec<u64> = receipt.messages().collect();
                assert!(told.is_sorted_by(|a, b| a > b) && told.len() as u64 <= Receipt::SPAN);
            }
        }
        9 => {
            if let Some((piece, bytes)) = BulkPiece::parse(bytes) {
                piece.put(&mut out);
                assert_eq!(out.len(), piece.encoded_len());
                out.extend_from_slice(bytes);
                assert_eq!(BulkPiece::parse(&out), Some((piece, bytes)));
            }
        }
        10 => {
            if let Some(history) = History::parse(bytes) {
                assert!(!history.is_empty() && history.len() <= 8 * History::MAX_BYTES);
                assert!(history.get(history.len() - 1).is_some() && history.get(history.len()).is_none());
                history.put(&mut out);
                assert_eq!(History::parse(&out[1..]), Some(history));
            }
        }
        6 => copies(bytes),
        _ => {
            if let Some(hello) = Hello::parse(bytes) {
                assert!(!hello.version.contains(char::is_control));
                hello.put_on_stream(&mut out);
                // What was not UTF-8 has become longer.
                let fits = hello.version.len() <= MAX_TEXT && hello.bearer.len() <= MAX_TEXT;
                assert!(!fits || Hello::parse(&out[1..]) == Some(hello));
            }
        }
    }
}

fn copies(mut body: &[u8]) {
    let mut taken = Vec::new();
    while !body.is_empty() {
        let before = body.len();
        let Some(copy) = take_copy(&mut body) else { break };
        assert!(body.len() < before, "a list that does not end");
        taken.push(copy);
    }
    let mut out = Vec::new();
    taken.iter().for_each(|(header, frames)| put_copy(&mut out, header, frames));
    let mut rest = out.as_slice();
    for copy in taken {
        assert_eq!(take_copy(&mut rest), Some(copy));
    }
    assert!(rest.is_empty());
}
