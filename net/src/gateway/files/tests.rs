use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("aquila-custody-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn deed(flow: u64) -> Deed {
    Deed { flow: FlowId(flow), ours: true, target: "[::1]:22".parse().unwrap() }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn all(files: &mut Files, flow: FlowId, from: u64, to: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while from + (out.len() as u64) < to {
        out.extend(files.read(flow, from + out.len() as u64, 1000).unwrap());
    }
    out
}

#[test]
fn what_was_appended_is_there_after_a_restart_and_what_was_released_is_gone() {
    let folder = Folder::new("restart");
    let sent = bytes(5_000_000);
    let flow = FlowId(7);
    let mut files = Files::open(&folder.0).unwrap();
    files.begin(&deed(7)).unwrap();
    for chunk in sent.chunks(16 << 10) {
        files.append(flow, chunk).unwrap();
    }
    assert!(all(&mut files, flow, 123, 5_000_000) == sent[123..]);
    files.release(flow, 3_000_000);
    let size: u64 = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size < 3_200_000, "{size}");
    drop(files);

    let mut files = Files::open(&folder.0).unwrap();
    let [kept] = files.load()[..] else { panic!() };
    assert_eq!((kept.deed, kept.released, kept.end, kept.fin), (deed(7), 3_000_000, 5_000_000, false));
    assert!(all(&mut files, flow, 3_000_000, 5_000_000) == sent[3_000_000..]);
    files.append(flow, b"more").unwrap();
    files.finish(flow).unwrap();
    drop(files);

    let mut files = Files::open(&folder.0).unwrap();
    assert_eq!(files.load().iter().map(|kept| (kept.end, kept.fin)).collect::<Vec<_>>(), [(5_000_004, true)]);
    assert_eq!(all(&mut files, flow, 5_000_000, 5_000_004), b"more");
    files.end(flow, Some((Some(Reason::Refused), 5)));
    drop(files);
    let mut files = Files::open(&folder.0).unwrap();
    assert!(files.load().is_empty());
    assert_eq!(files.load_ended(), [(flow, Some(Reason::Refused), 5)]);
}

#[test]
fn a_record_that_was_cut_off_or_damaged_is_not_there_and_those_before_it_are() {
    let folder = Folder::new("torn");
    let flow = FlowId(1);
    for cut in [1, 10, 20, 100] {
        let _ = fs::remove_dir_all(&folder.0);
        let mut files = Files::open(&folder.0).unwrap();
        files.begin(&deed(1)).unwrap();
        files.append(flow, &bytes(500)).unwrap();
        files.append(flow, &bytes(100)).unwrap();
        drop(files);
        let path = folder.0.join(name(flow, 0));
        let mut whole = fs::read(&path).unwrap();
        let len = whole.len();
        match cut {
            20 => whole[len - 20] ^= 1,
            _ => whole.truncate(len - cut),
        }
        fs::write(&path, &whole).unwrap();
        let mut files = Files::open(&folder.0).unwrap();
        assert_eq!(files.load()[0].end, 500, "{cut}");
        files.append(flow, &bytes(50)).unwrap();
        assert_eq!(all(&mut files, flow, 0, 550), [bytes(500), bytes(50)].concat());
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_and_a_log_that_is_none_is_put_aside() {
    assert!(Files::open(Path::new("/proc/no/such")).is_err());
    let folder = Folder::new("aside");
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.0.join(name(FlowId(9), 0)), b"nonsense").unwrap();
    assert!(Files::open(&folder.0).unwrap().load().is_empty());
    assert!(folder.0.join("0000000000000009.00000000.broken").exists());
}

#[test]
fn ended_flows_are_remembered_up_to_a_number() {
    let folder = Folder::new("ended");
    let mut files = Files::open(&folder.0).unwrap();
    for flow in 0..3000 {
        files.end(FlowId(flow), Some((None, flow)));
    }
    let ended = files.load_ended();
    assert_eq!(ended.len(), MAX_ENDED / 2);
    assert_eq!(ended.last(), Some(&(FlowId(2999), None, 2999)));
}
