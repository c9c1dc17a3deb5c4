#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aquila_fuzz::cast(data));
