//! Whatever is wrong with the input, there is a clear word and an exit code, and never a panic.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::{fs, io::Write};

use common::Shell;

#[test]
fn what_is_not_a_store() {
    let shell = Shell::new();
    shell.write("text", "hello\n");
    shell.write("zeros", [0; 100_000]);
    shell.write("empty", "");
    fs::create_dir(shell.path().join("dir")).unwrap();
    for name in ["text", "zeros", "empty", "dir"] {
        for command in ["get X k", "put X k v", "scan X", "stat X", "zones X", "compact X", "dump X", "backup X copy"] {
            let said = shell.fails(1, &command.replace('X', name));
            assert!(said.contains(name), "{command} {name}: {said}");
        }
    }
    assert_eq!(shell.read("text"), b"hello\n");
}

#[test]
fn stores_that_are_not_there_are_made_only_by_load_and_put() {
    let shell = Shell::new();
    for command in
        ["get s k", "delete s k", "scan s", "stat s", "zones s", "check s", "dump s", "compact s", "backup s t"]
    {
        assert!(shell.fails(1, command).contains("no store"), "{command}");
    }
    assert_eq!(fs::read_dir(shell.path()).unwrap().count(), 0);
    assert!(shell.fails(1, "get s k").contains("`zonda put`"), "it says what makes one");
    let said = shell.fails(1, "put no/such/directory/s k v");
    assert!(said.contains("no/such"), "{said}");
    assert_eq!(said.matches("os error").count(), 1, "{said}");
}

#[test]
fn a_truncated_or_damaged_store_is_found_by_check() {
    let shell = Shell::new();
    shell.write("in.tsv", (0..2000).map(|n| format!("{n:05}\tsome value {n}\n")).collect::<String>());
    shell.ok("load s.zonda in.tsv --memory 4MiB");
    shell.ok("compact s.zonda --memory 4MiB");
    let whole = shell.read("s.zonda");
    shell.write("cut.zonda", &whole[..5000]);
    assert_eq!(shell.run("check cut.zonda").code, Some(3));
    assert_eq!(shell.unread("check cut.zonda"), Some(3), "whoever reads of it or not");
    let (mut damaged, mut around) = (0, 0);
    let written: Vec<usize> = (0..whole.len()).step_by(4096).filter(|&at| whole[at + 64] != 0).collect();
    for &at in written.iter().step_by((written.len() / 40).max(1)) {
        let mut flipped = whole.clone();
        flipped[at + 64] ^= 1;
        shell.write("flipped.zonda", &flipped);
        let ended = shell.run("check flipped.zonda --memory 4MiB");
        assert!(matches!(ended.code, Some(0 | 1 | 3)), "byte {at}: {ended:?}");
        assert!(!ended.out.contains("`zonda check`"), "byte {at}: advice to do what was done: {ended:?}");
        damaged += u32::from(ended.code == Some(3));
        // What of a leaf cannot be read keeps nobody from the others.
        if ended.code == Some(3) && ended.out.contains("keys from") {
            assert_eq!(shell.run("dump flipped.zonda --memory 4MiB").code, Some(1));
            let dumped = shell.run("dump flipped.zonda --memory 4MiB --skip-damaged");
            assert_eq!(dumped.code, Some(3), "{dumped:?}");
            assert_eq!(shell.unread("dump flipped.zonda --memory 4MiB --skip-damaged"), Some(3));
            let pairs = dumped.out.lines().count();
            assert!(
                (1000..2000).contains(&pairs) && dumped.err.contains("left out: keys from"),
                "{pairs}: {}",
                dumped.err
            );
            around += 1;
        }
    }
    assert!(damaged > 0 && around > 0, "no flipped bit was found");
    assert_eq!(shell.ok("dump s.zonda --skip-damaged").lines().count(), 2000);
}

#[test]
fn a_second_opener() {
    let shell = Shell::new();
    shell.ok("put s.zonda k v");
    let mut holder = shell.command("load s.zonda - --format tsv").spawn().unwrap();
    // More than a pipe holds: when it is written the holder has read of it, and it opens the store before it reads.
    let mut input = holder.stdin.take().unwrap();
    input.write_all("held\tby the first\n".repeat(32 << 10).as_bytes()).unwrap();
    assert!(shell.fails(1, "put s.zonda k w").contains("in use"));
    drop(input);
    assert!(holder.wait_with_output().unwrap().status.success());
    assert_eq!(shell.run("put s.zonda k w").code, Some(0));
}

#[test]
fn options_that_are_zero_or_absurd() {
    let shell = Shell::new();
    for (code, arguments) in [
        (2, "put s k v --memory 0"),
        (2, "put s k v --memory 1KiB"),
        (2, "put s k v --memory lots"),
        (2, "put s k v --memory -5"),
        (2, "put s k v --memory 99999999999999999999"),
        (2, "put s k v --memory 1000000TiB"),
        (1, "put mem:?zones=0 k v"),
        (1, "put mem:?zone_size=17 k v"),
        (2, "put mem:?wings=2 k v"),
        (2, "put http:x k v"),
        (1, "put zbd:/dev/null k v"),
        (2, "scan s --limit many"),
        (2, "scan s --prefix a --from b"),
        (2, "load s x --format xml"),
        (1, "load s no-such-file.tsv"),
        (2, "load s ."),
        (2, "load s file-without-ending"),
        (2, "frobnicate"),
        (2, "put s"),
        (2, "put s --hex 0 00"),
        (2, "put s --hex zz 00"),
        (2, "bench ycsb --on mem: --records 0"),
        (2, "bench space --records 0"),
        (2, "bench ycsb --on mem: --records 10 --threads 0"),
        (2, "device create d --zones 0"),
        (2, "device create d --zones 99999999999"),
        (1, "device report nothing-here"),
        (2, "get s k --memory 0"),
        (2, "check s --memory 0"),
        (2, "check http:x"),
        (2, "get s zz --hex"),
        (2, "load s x.tsv --header"),
        (2, "fs cp a b c"),
        (2, "fs ls mem:?fs=ext4"),
        (2, "device bench mem: --depth 0"),
        (2, "bench ycsb --on mem: --records 10 --filter 2"),
        (2, "bench ycsb --on mem: --records 10 --value-bytes 99999999999"),
        (2, "replay lsm:1 --zones 0"),
        (2, "replay lsm:1 --policy nope"),
    ] {
        let said = shell.fails(code, arguments);
        assert!(said.len() > 20, "{arguments}: {said}");
    }
    let designs = shell.fails(2, "bench ycsb --on mem: --design nosuch --records 10");
    assert!(["zonda", "zkv-block", "bftree", "map"].iter().all(|design| designs.contains(design)), "{designs}");
    assert_eq!(fs::read_dir(shell.path()).unwrap().count(), 0, "nothing was left behind");
    assert!(shell.fails(2, "repro zkv-table3 --scale tiny --point x").contains("one point"));
    assert!(shell.fails(2, "repro zns-fig1 --print-options").contains("\"zns-fig1\" does not work"));
}

#[test]
fn a_file_of_keys_that_is_not_there_costs_no_results() {
    let shell = Shell::new();
    shell.write("before.json", "what was measured");
    let said = shell.fails(1, "repro zkv-table3 --scale tiny --out . --json before.json --keys nothing-here");
    assert!(said.contains("cannot read nothing-here") && said.lines().count() == 1, "{said}");
    assert_eq!(shell.read("before.json"), b"what was measured");
}

#[test]
fn keys_and_values_over_the_limit() {
    let shell = Shell::new();
    assert!(shell.fails(1, &format!("put s {} v", "k".repeat(1025))).contains("1024"));
    assert!(!shell.path().join("s").exists(), "nothing was made for it");
    shell.ok(&format!("put s {} v", "k".repeat(1024)));
    assert!(shell.fails(1, &format!("put s {} v", "k".repeat(1025))).contains("1024"));
    let long = shell.pipe("put s k -", &vec![7; (16 << 20) + 1]);
    assert_eq!(long.code, Some(1));
    assert!(long.err.contains("more than 16777216"), "how long it is, is not known: {}", long.err);
    assert_eq!(shell.run("get s k").code, Some(1));
}
