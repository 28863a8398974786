//! `zonda fs`: files go in and come out, damage and bad input are said.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::fs;
use std::process::{Command, Output};

use common::Shell;

fn store() -> Shell {
    let shell = Shell::new();
    shell.ok("device create d.zoned --zones 32 --zone-size 1MiB --max-active 14");
    shell.ok("fs mkfs d.zoned");
    shell
}

fn bytes(seed: u8, count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at * 7 + usize::from(seed)) % 253).unwrap()).collect()
}

#[test]
fn files_go_in_and_come_out() {
    let shell = store();
    shell.write("000001.sst", bytes(1, 300_000));
    shell.ok("fs cp d.zoned 000001.sst store:/000001.sst");
    shell.ok("fs cp d.zoned store:/000001.sst store:/copy.sst");
    shell.ok("fs cp d.zoned store:/copy.sst out.sst");
    assert_eq!(shell.read("out.sst"), bytes(1, 300_000));
    shell.write("CURRENT", "MANIFEST-000001\n");
    shell.ok("fs cp d.zoned CURRENT store:/CURRENT");
    assert_eq!(shell.ok("fs cat d.zoned /CURRENT"), "MANIFEST-000001\n");
    assert_eq!(shell.ok("fs ls d.zoned"), "/000001.sst\n/CURRENT\n/copy.sst\n");
    let long = shell.ok("fs ls d.zoned /CURRENT --long");
    assert!(long.contains("meta") && long.contains("16 B"), "{long}");
    let json: serde_json::Value = serde_json::from_str(&shell.ok("fs ls d.zoned /copy.sst --json")).unwrap();
    assert_eq!((json["size_bytes"].as_u64(), json["kind"].as_str()), (Some(300_000), Some("data")));
    assert!(shell.ok("fs check d.zoned").contains("3 files") && shell.ok("fs dump d.zoned").contains("/copy.sst"));
}

/// Names in the directory of the host.
fn on_host(shell: &Shell) -> Vec<String> {
    let names = fs::read_dir(shell.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Runs `zonda` where no file of the host may be long: the error comes when some of it is written.
fn with_short_files(shell: &Shell, arguments: &str) -> Output {
    let zonda = shell.command(arguments);
    let limited = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"";
    let mut limit = Command::new("sh");
    limit.args(["-c", limited]).arg(zonda.get_program()).args(zonda.get_args()).current_dir(shell.path());
    limit.output().unwrap()
}

#[test]
fn a_copy_that_fails_leaves_what_was_there() {
    let shell = store();
    shell.write("small", bytes(1, 5_000));
    shell.write("half", bytes(2, 16 << 20));
    shell.write("large", bytes(3, 40 << 20));
    shell.ok("fs cp d.zoned small store:/f");
    for to in ["/f", "/new"] {
        assert!(shell.fails(1, &format!("fs cp d.zoned large store:{to}")).contains(&format!("cannot write {to}")));
    }
    assert_eq!(shell.ok("fs ls d.zoned"), "/f\n");
    shell.ok("fs cp d.zoned half store:/half");
    shell.fails(1, "fs cp d.zoned store:/half store:/f");
    assert_eq!(shell.ok("fs ls d.zoned"), "/f\n/half\n");
    shell.ok("fs cp d.zoned store:/f out");
    assert_eq!(shell.read("out"), bytes(1, 5_000));
    let there = on_host(&shell);
    assert_eq!(with_short_files(&shell, "fs cp d.zoned store:/half out").status.code(), Some(1));
    assert_eq!((shell.read("out"), on_host(&shell)), (bytes(1, 5_000), there));
    assert!(shell.fails(1, "fs cp d.zoned store:/f /dev/full").contains("/dev/full"));
    assert!(shell.fails(1, "fs cp d.zoned store:/f .").contains("directory"));
    assert!(shell.ok("fs check d.zoned").contains("2 files"));
}

#[test]
fn a_copy_replaces_no_device_and_keeps_links() {
    let shell = store();
    shell.write("a", bytes(1, 5_000));
    shell.ok("fs cp d.zoned a store:/a");
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, shell.path().join(name)).unwrap();
    link("d.zoned", "disk");
    for (device, target) in [("d.zoned", "d.zoned"), ("file:d.zoned", "./d.zoned"), ("d.zoned", "disk")] {
        assert!(shell.fails(1, &format!("fs cp {device} store:/a {target}")).contains("device"), "{device} {target}");
    }
    let drive = "conv:test-conv?time=untimed&data=drive";
    shell.ok(&format!("fs mkfs {drive}"));
    shell.ok(&format!("fs cp {drive} a store:/a"));
    assert!(shell.fails(1, &format!("fs cp {drive} store:/a drive")).contains("device"));
    shell.write("real", "x");
    link("real", "link");
    shell.ok("fs cp d.zoned store:/a link");
    assert_eq!(
        (shell.read("real"), fs::read_link(shell.path().join("link")).unwrap()),
        (bytes(1, 5_000), "real".into())
    );
    assert_eq!(shell.ok("fs ls d.zoned"), "/a\n");
}

#[test]
fn a_backup_is_restored_with_its_tags() {
    let shell = store();
    shell.write("a", bytes(3, 50_000));
    shell.ok("fs cp d.zoned a store:/000007.log");
    shell.ok("fs cp d.zoned a store:/000008.sst");
    shell.ok("fs backup d.zoned copy");
    assert_eq!(shell.read("copy/000008.sst"), bytes(3, 50_000));
    assert!(shell.fails(1, "fs backup d.zoned copy").contains("exists"));
    assert!(shell.fails(1, "fs restore d.zoned copy").contains("not empty"));
    shell.ok("device create e.zoned --zones 16 --zone-size 2MiB --max-active 14");
    shell.ok("fs mkfs e.zoned");
    let said = shell.ok("fs restore e.zoned copy --json");
    assert!(said.contains("\"bytes\":100000"), "{said}");
    assert!(shell.ok("fs ls e.zoned /000007.log -l").contains("log"));
    shell.ok("fs cp e.zoned store:/000008.sst back");
    assert_eq!(shell.read("back"), bytes(3, 50_000));
    fs::create_dir_all(shell.path().join("plain/db")).unwrap();
    shell.write("plain/db/CURRENT", "x\n");
    shell.ok("fs mkfs e.zoned --force");
    shell.ok("fs restore e.zoned plain");
    assert_eq!(shell.ok("fs cat e.zoned /db/CURRENT"), "x\n");
    assert_eq!(shell.ok("fs ls e.zoned / --recursive"), "/db/\n/db/CURRENT\n");
}

#[test]
fn one_database_of_several_moves() {
    let shell = store();
    let (users, events) = (bytes(3, 50_000), bytes(4, 70_000));
    for (name, data) in [("users", &users), ("events", &events)] {
        fs::create_dir_all(shell.path().join(name).join("old")).unwrap();
        shell.write(&format!("{name}/000008.sst"), data);
        shell.write(&format!("{name}/old/000001.log"), data);
        shell.ok(&format!("fs restore d.zoned {name} --into /all/{name}"));
    }
    assert!(shell.fails(1, "fs restore d.zoned users --into /all/users").contains("/all/users exists"));
    assert!(shell.fails(1, "fs restore d.zoned users").contains("--into"));
    assert!(shell.fails(1, "fs restore d.zoned users --into /all/users/000008.sst/x").contains("cannot make"));

    shell.ok("fs backup d.zoned copy --from /all/events");
    assert_eq!(shell.read("copy/old/000001.log"), events);
    assert!(!shell.path().join("copy/all").exists());
    assert!(shell.fails(1, "fs backup d.zoned none --from /none").contains("/none"));
    shell.ok("device create e.zoned --zones 16 --zone-size 2MiB --max-active 14");
    shell.ok("fs mkfs e.zoned");
    shell.ok("fs restore e.zoned copy --into events");
    assert_eq!(shell.ok("fs ls e.zoned -r"), "/events/\n/events/000008.sst\n/events/old/\n/events/old/000001.log\n");
    assert!(shell.ok("fs ls e.zoned /events/old/000001.log -l").contains("log"));

    // What was put in halfway can be taken out again, and the other stays.
    shell.write("copy/old/000001.log", [&events[1..], &[0]].concat());
    let said = shell.fails(1, "fs restore e.zoned copy --into /again");
    assert!(said.contains("checksum differs") && said.contains("fs rm --recursive e.zoned /again"), "{said}");
    shell.ok("fs rm --recursive e.zoned /again");
    shell.ok("fs cp e.zoned store:/events/000008.sst back");
    assert_eq!(shell.read("back"), events);
}

#[test]
fn what_is_removed_makes_room() {
    let shell = store();
    fs::create_dir_all(shell.path().join("plain/db/old/deep")).unwrap();
    for name in ["db/keep.sst", "db/old/a.sst", "db/old/deep/b.sst", "LOG.old.1"] {
        shell.write(&format!("plain/{name}"), bytes(1, 2_000_000));
    }
    shell.ok("fs restore d.zoned plain");
    let live = || {
        let json: serde_json::Value = serde_json::from_str(&shell.ok("fs df d.zoned --json")).unwrap();
        json["live_bytes"].as_u64().unwrap()
    };
    let before = live();
    for (arguments, said) in [
        ("fs rm d.zoned /db/old", "--recursive"),
        ("fs rm d.zoned -r /", "mkfs --force"),
        ("fs rm d.zoned /none", "/none"),
    ] {
        assert!(shell.fails(1, arguments).contains(said), "{arguments}");
    }
    assert_eq!(live(), before);
    shell.ok("fs rm d.zoned --recursive /db/old /LOG.old.1");
    assert_eq!(shell.ok("fs ls d.zoned -r"), "/db/\n/db/keep.sst\n");
    assert!(before - live() >= 6_000_000, "{before} and {}", live());
    assert!(shell.ok("fs check d.zoned").contains("all is well"));
}

#[test]
fn a_backup_that_is_not_whole_is_not_restored() {
    let shell = store();
    shell.write("a", bytes(3, 50_000));
    shell.ok("fs cp d.zoned a store:/a.sst");
    shell.ok("fs backup d.zoned copy");
    shell.ok("device create e.zoned --zones 16 --zone-size 2MiB --max-active 14");
    shell.ok("fs mkfs e.zoned");
    let refused = |what: &str| {
        let said = shell.fails(1, "fs restore e.zoned copy");
        assert!(said.contains(what), "{what}: {said}");
    };
    shell.write("copy/a.sst", bytes(3, 49_999));
    refused("has 49999 bytes; 50000 were copied");
    assert_eq!(shell.ok("fs ls e.zoned"), "", "nothing was written");
    shell.write("copy/a.sst", [bytes(3, 49_999), vec![0xee]].concat());
    refused("checksum differs");
    refused("mkfs --force");
    shell.ok("fs mkfs e.zoned --force");
    shell.write("copy/a.sst", bytes(3, 50_000));
    shell.write("copy/zonda-files.unfinished", "");
    refused("did not end");
    fs::remove_file(shell.path().join("copy/zonda-files.unfinished")).unwrap();
    shell.ok("fs restore e.zoned copy");
    assert_eq!(shell.ok("fs ls e.zoned"), "/a.sst\n");
    // Another directory of the host, with what is no file.
    fs::create_dir(shell.path().join("plain")).unwrap();
    assert!(Command::new("mkfifo").arg(shell.path().join("plain/pipe")).status().unwrap().success());
    shell.ok("fs mkfs e.zoned --force");
    assert!(shell.fails(1, "fs restore e.zoned plain").contains("is no file"));
}

#[test]
fn damage_is_found_and_not_handed_on() {
    let shell = store();
    let data = bytes(5, 200_000);
    shell.write("a", &data);
    shell.ok("fs cp d.zoned a store:/a.sst");
    let mut image = shell.read("d.zoned");
    let at = image.windows(64).position(|window| window == &data[50_000..50_064]).unwrap();
    image[at] ^= 1;
    shell.write("d.zoned", image);
    let checked = shell.run("fs check d.zoned");
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains("/a.sst: no valid checksum in zone"), "{checked:?}");
    for command in ["fs cat d.zoned /a.sst", "fs cp d.zoned store:/a.sst out", "fs backup d.zoned copy"] {
        assert!(shell.fails(1, command).contains("damaged"), "{command}");
    }
    assert!(!shell.path().join("out").exists(), "nothing is made of a damaged file");
    // What is whole can be had without it.
    shell.write("whole", bytes(6, 30_000));
    shell.ok("fs cp d.zoned whole store:/whole.sst");
    assert!(shell.fails(1, "fs backup d.zoned none").contains("damaged"));
    let said = shell.run("fs backup d.zoned rest --skip-damaged");
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.out.contains("left out: /a.sst: ") && said.out.contains("1 names, 1 files"), "{said:?}");
    assert_eq!(shell.read("rest/whole.sst"), bytes(6, 30_000));
    assert_eq!(shell.unread("fs backup d.zoned unread --skip-damaged"), Some(3), "whoever reads of it or not");
    assert!(!shell.path().join("rest/a.sst").exists());
    shell.ok("device create f.zoned --zones 16 --zone-size 2MiB --max-active 14");
    shell.ok("fs mkfs f.zoned");
    let said = shell.run("fs restore f.zoned rest");
    assert!(said.code == Some(0) && said.err.contains("/a.sst is not in the backup"), "{said:?}");
    assert!(said.out.contains("1 names"), "{said:?}");
    assert_eq!(shell.ok("fs ls f.zoned"), "/whole.sst\n");
}

#[test]
fn a_damaged_journal_is_told() {
    let shell = store();
    fs::create_dir_all(shell.path().join("plain")).unwrap();
    (0..8).for_each(|name| shell.write(&format!("plain/{name}.sst"), bytes(name, 5_000)));
    shell.ok("fs restore d.zoned plain");
    assert!(shell.ok("fs check d.zoned").contains("all is well"));
    let whole = shell.read("d.zoned");
    // The chunks of records, of which the second is damaged.
    let records: Vec<usize> =
        (0..whole.len() - 5).step_by(4096).filter(|&at| whole[at..at + 5] == *b"ZJRN\x01").collect();
    assert!(records.len() > 5, "{records:?}");
    let mut image = whole;
    image[records[1] + 8] ^= 1;
    shell.write("d.zoned", image);
    let checked = shell.run("fs check d.zoned");
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(
        checked.out.contains("the journal is damaged: 0 records") && checked.out.contains("1 finding"),
        "{checked:?}"
    );
    for command in ["fs ls d.zoned", "fs backup d.zoned copy"] {
        assert!(shell.run(command).err.contains("the journal is damaged"), "{command}");
    }
    shell.write("new", "x");
    let copied = shell.run("fs cp d.zoned new store:/new");
    assert!(copied.code == Some(0) && copied.err.contains("in the journal"), "{copied:?}");
    assert!(shell.ok("fs check d.zoned").contains("all is well"));
}

#[test]
fn a_backup_of_nothing_makes_no_directory() {
    let shell = store();
    shell.write("a", "x");
    shell.ok("fs cp d.zoned a store:/a");
    for mistyped in ["e.zoned", "d.zoned?fs=xfs-like", "a"] {
        shell.fails(1, &format!("fs backup {mistyped} copy"));
        assert!(!shell.path().join("copy").exists(), "{mistyped}");
    }
    shell.fails(1, "fs backup d.zoned copy --from /none");
    assert!(!shell.path().join("copy").exists());
    shell.ok("fs backup d.zoned copy");
    assert_eq!(shell.read("copy/a"), b"x");
}

/// What is wrong with the host is no damage, and what the backup did not make stays.
#[test]
fn only_damage_is_left_out() {
    let shell = store();
    shell.write("large", bytes(5, 4 << 20));
    shell.ok("fs cp d.zoned large store:/a.sst");
    let limited = with_short_files(&shell, "fs backup d.zoned full --skip-damaged");
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    let full = fs::read_dir(shell.path().join("full")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(full.collect::<Vec<_>>(), ["zonda-files.unfinished"], "nothing is half there");
    shell.ok("fs rm d.zoned /a.sst");
    shell.write("small", "x");
    for taken in ["zonda-files.unfinished", "zonda-files.json"] {
        shell.ok(&format!("fs cp d.zoned small store:/{taken}"));
        let said = shell.fails(1, "fs backup d.zoned copy --skip-damaged");
        assert!(said.contains(taken), "{said}");
        assert!(!shell.path().join("copy").exists(), "{taken}: nothing was copied");
        shell.ok(&format!("fs rm d.zoned /{taken}"));
    }
}

#[test]
fn a_copy_has_a_name_of_its_own() {
    let shell = store();
    shell.write("a", "x");
    for (to, said) in
        [("/x/", "what the copy is called"), ("/", "called"), ("", "called"), ("/.zonda-cp", "not whole yet")]
    {
        assert!(shell.fails(2, &format!("fs cp d.zoned a store:{to}")).contains(said), "{to}");
    }
    shell.ok("fs cp d.zoned a store:/a");
    assert!(shell.fails(2, "fs cp d.zoned store:/a store:/d/.zonda-cp").contains("not whole yet"));
    assert_eq!(shell.ok("fs ls d.zoned"), "/a\n");
}

#[test]
fn a_name_is_listed_in_one_line() {
    let shell = store();
    shell.write("a", "x");
    shell.ok("fs cp d.zoned a store:/two\nlines");
    assert_eq!(shell.ok("fs ls d.zoned"), "/two\\nlines\n");
    assert!(shell.ok("fs ls d.zoned --long").ends_with("/two\\nlines\n"));
    assert!(shell.ok("fs dump d.zoned").contains("\n/two\\nlines  1 bytes\n"));
    let data = bytes(7, 5_000);
    shell.write("b", &data);
    shell.ok("fs cp d.zoned b store:/torn\nname");
    let mut image = shell.read("d.zoned");
    let at = image.windows(64).position(|window| window == &data[..64]).unwrap();
    image[at] ^= 1;
    shell.write("d.zoned", image);
    let checked = shell.run("fs check d.zoned");
    assert!(checked.out.starts_with("/torn\\nname: "), "{checked:?}");
    let left_out = shell.run("fs backup d.zoned copy --skip-damaged");
    assert!(left_out.out.starts_with("left out: /torn\\nname: ") && left_out.out.lines().count() == 2, "{left_out:?}");
}

#[test]
fn bad_input_is_said() {
    let shell = store();
    shell.write("text", "hello\n");
    fs::create_dir(shell.path().join("bad")).unwrap();
    shell.write("bad/zonda-files.json", "{]");
    for (code, arguments) in [
        (1, "fs mkfs nothing-here"),
        (1, "fs mkfs d.zoned"),
        (1, "fs mkfs text"),
        (1, "fs ls text"),
        (1, "fs ls nothing-here"),
        (1, "fs ls d.zoned /no/such"),
        (1, "fs ls d.zoned ../x"),
        (1, "fs cat d.zoned /"),
        (1, "fs cat d.zoned /none"),
        (2, "fs cp d.zoned a b"),
        (1, "fs cp d.zoned none store:/a"),
        (1, "fs cp d.zoned . store:/a"),
        (1, "fs cp d.zoned text store:/no/such/directory"),
        (1, "fs cp d.zoned store:/none out"),
        (2, "fs df http:x"),
        (2, "fs df d.zoned --json --prometheus"),
        (1, "fs dump text"),
        (1, "fs check text"),
        (1, "fs backup d.zoned no/such/directory"),
        (1, "fs restore d.zoned nothing-here"),
        (1, "fs restore d.zoned bad"),
        (2, "fs frobnicate"),
        (2, "fs ls"),
    ] {
        let said = shell.fails(code, arguments);
        assert!(said.len() > 15, "{arguments}: {said}");
    }
    assert_eq!(shell.ok("fs ls d.zoned"), "", "nothing was left behind");
    for named in ["fs mkfs nothing-here", "fs ls nothing-here", "fs mkfs nothing-here?fs=xfs-like"] {
        assert!(shell.fails(1, named).contains("`zonda device create`"), "{named}: it says what makes one");
    }
    let said = shell.fails(2, "fs ls zonda://file:d.zoned?policy=caza");
    assert!(said.contains("file:d.zoned: names") && !said.contains("unknown scheme"), "{said}");
}

#[test]
fn no_more_is_live_in_a_zone_than_was_written() {
    let shell = store();
    shell.write("000001.sst", bytes(1, 300_000));
    shell.ok("fs cp d.zoned 000001.sst store:/000001.sst");
    let dumped = shell.ok("fs dump d.zoned --json");
    let lines = dumped.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let zones: Vec<_> = lines.filter(|line| !line["zone"].is_null()).collect();
    assert!(zones.iter().any(|zone| zone["of"] == "journal"), "{zones:?}");
    for zone in zones {
        assert!(zone["live_bytes"].as_u64().unwrap() <= zone["written_bytes"].as_u64().unwrap(), "{zone}");
    }
}

#[test]
fn a_database_is_no_file_store_and_the_other_way_round() {
    let shell = store();
    shell.ok("put app.zonda k v");
    assert!(!shell.fails(1, "fs ls app.zonda").is_empty());
    assert!(!shell.fails(1, "get d.zoned k").is_empty());
    assert_eq!(shell.ok("get app.zonda k").trim_end(), "v");
}

#[test]
fn a_replay_needs_a_trace_and_sane_zones_and_knows_no_throughput() {
    let shell = Shell::new();
    shell.write("text", "hello\n");
    shell.write("small.trace", "zonda-trace 1\n1 create 0 data long 3 /a\n2 append 0 5000000\n3 sync 0\n4 close 0\n");
    let said = shell.ok("replay small.trace --policy caza,oracle --threshold 5,25");
    assert!(said.matches("amplification 1.000").count() == 4 && said.contains("not known"), "{said}");
    let said = shell.ok("replay small.trace --policy ldp,splitzns+,from=3,share=50,splitzns");
    assert!(
        said.contains("splitzns+,from=3,share=50, threshold 15 %"),
        "options belong to the policy before them: {said}"
    );
    assert_eq!(said.matches(", threshold 15 %").count(), 3, "{said}");
    let json = shell.ok("replay small.trace --policy ldp --json --scale 3");
    assert!(json.contains("\"table_bytes\":15000000"), "{json}");
    for (code, arguments) in [
        (1, "replay text"),
        (1, "replay none.trace"),
        (2, "replay lsm:x"),
        (2, "replay small.trace --policy best"),
        (2, "replay small.trace --zones 3"),
        (2, "replay small.trace --zone-size 1KiB"),
        (2, "replay small.trace --threshold 99"),
        (1, "replay small.trace --max-active 1"),
        (2, "replay small.trace --scale 0"),
        (1, "replay small.trace --measure-from nowhere"),
        (1, "replay small.trace --scale 100000"),
        (2, "replay small.trace --throughput"),
        (2, "replay small.trace --threshold 300"),
        (2, "replay"),
    ] {
        assert!(shell.fails(code, arguments).len() > 15, "{arguments}");
    }
}

/// Tables of 2 MB of level 4, sixteen at a time.
fn deep_tables() -> String {
    let mut lines = vec!["zonda-trace 1".to_owned(), "1 tree 5 bytewise 0 /".to_owned()];
    for file in 0..60 {
        lines.push(format!("2 create {file} data extreme 4 /{file}"));
        lines.push(format!("2 describe {file} 5 - 4 x61 x62"));
        lines.extend([format!("2 append {file} 2000000"), format!("2 close {file}")]);
        if let Some(old) = u32::checked_sub(file, 16) {
            lines.extend([format!("2 edit 5 -{old}"), format!("2 unlink /{old}")]);
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_policy_that_runs_out_of_space_is_one_of_the_results() {
    let shell = Shell::new();
    shell.write("deep.trace", deep_tables());
    let replay = "replay deep.trace --policy caza,ldp,splitzns --zones 12 --zone-size 6000000 --reserve 2 --subzones 2";
    let ended = shell.run(replay);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("2 of 3") && ended.err.contains("caza, threshold 15 %: no space: 3"), "{ended:?}");
    assert!(ended.out.contains("ldp, threshold 15 %\n  tables 114.44 MiB"), "{ended:?}");
    assert_eq!(ended.out.matches("threshold 15 %\n  failed: no space: 32000000 bytes").count(), 2, "{ended:?}");
    let ended = shell.run(&format!("{replay} --json"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lines = ended.out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let results: Vec<_> = lines.map(|line| (line["policy"].as_str().unwrap().to_owned(), line)).collect();
    assert_eq!(results.iter().map(|(policy, _)| policy.as_str()).collect::<Vec<_>>(), ["caza", "ldp", "splitzns"]);
    let has_failed = |line: &serde_json::Value| line["error"].as_str().is_some_and(|error| error.contains("no space"));
    assert_eq!(results.iter().map(|(_, line)| has_failed(line)).collect::<Vec<_>>(), [true, false, true], "{ended:?}");
    assert_eq!((results[0].1["zones"].as_u64(), results[1].1["resets"].as_u64()), (Some(12), Some(14)));
    // A name that nobody has is told before the first replay.
    let ended = shell.run("replay deep.trace --policy ldp,best");
    assert!(ended.code == Some(2) && ended.out.is_empty(), "{ended:?}");
}

#[test]
fn a_replay_that_never_cleans_says_what_to_set() {
    let shell = Shell::new();
    shell.write("deep.trace", deep_tables());
    let said = |more: &str| shell.run(&format!("replay deep.trace --policy ldp,splitzns {more}")).err;
    for json in ["", "--json"] {
        let hint = said(json);
        assert_eq!(hint.lines().count(), 1, "{hint}");
        assert!(hint.contains("32.42 MiB were live on 100 zones of 953.67 MiB; set --zone-size"), "{hint}");
    }
    assert_eq!(said("--zone-size 8000000 --zones 12 --reserve 2"), "");
}

#[test]
fn a_conventional_drive_has_the_same_commands() {
    let shell = Shell::new();
    shell.write("a.sst", bytes(9, 300_000));
    shell.ok("device create disk?layout=blocks --zones 8 --zone-size 4MiB");
    for (name, other) in [
        ("conv:test-conv?time=untimed&data=drive", "conv:test-conv?time=untimed&data=drive&fs=f2fs-like"),
        ("flash:test-conv?fs=xfs-like&time=untimed&data=same", "conv:test-conv?time=untimed&data=same&fs=f2fs-like"),
        ("hftl:flash:test?time=untimed&data=zones&fs=xfs-like", "hftl:flash:test?time=untimed&data=zones&fs=f2fs-like"),
        ("disk?fs=f2fs-like", "disk?fs=xfs-like"),
    ] {
        shell.ok(&format!("fs mkfs {name}"));
        assert!(shell.fails(1, &format!("fs mkfs {name}")).contains(name), "it holds a store");
        shell.ok(&format!("fs cp {name} a.sst store:/a.sst"));
        assert_eq!(shell.ok(&format!("fs ls {name}")), "/a.sst\n");
        shell.ok(&format!("fs cp {name} store:/a.sst out"));
        assert_eq!(shell.read("out"), bytes(9, 300_000));
        assert!(shell.ok(&format!("fs check {name}")).contains("1 file"));
        let json: serde_json::Value = serde_json::from_str(&shell.ok(&format!("fs df {name} --json"))).unwrap();
        assert!(json["live_bytes"].as_u64().unwrap() >= 300_000, "{json}");
        assert!(shell.fails(1, &format!("fs ls {other}")).contains("not with fs="), "{other}");
        fs::remove_file(shell.path().join("out")).unwrap();
    }
    assert!(shell.fails(1, "fs mkfs conv:test-conv?time=untimed").contains("data=FILE"));
    let there = on_host(&shell);
    for command in ["ls", "check", "df", "dump", "cp a.sst store:/a"] {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let said = shell.fails(1, &format!("fs {verb} conv:test-conv?data=nope {rest}"));
        assert!(said.contains("no nope") && said.contains("mkfs"), "{command}: {said}");
    }
    assert_eq!(on_host(&shell), there, "only mkfs makes a file");
    assert!(shell.fails(2, "fs ls disk?fs=ext4").contains("xfs-like"));
    assert!(shell.fails(2, "fs ls disk?fs=f2fs-like&fs=f2fs-like").contains("twice"));
}

#[test]
fn a_modelled_drive_with_zones_has_the_same_commands() {
    let shell = Shell::new();
    let drive = "flash:test?time=untimed&data=drive";
    assert!(shell.fails(1, &format!("fs ls {drive}")).contains("no drive"));
    assert!(shell.fails(1, "fs mkfs flash:test").contains("data=FILE"));
    assert!(on_host(&shell).is_empty());
    shell.ok(&format!("fs mkfs {drive}"));
    shell.write("a", bytes(1, 300_000));
    shell.ok(&format!("fs cp {drive} a store:/a"));
    shell.ok(&format!("fs cp {drive} store:/a out"));
    assert_eq!(shell.read("out"), bytes(1, 300_000));
    assert!(shell.fails(1, &format!("fs cp {drive} store:/a drive")).contains("device"));
    assert!(shell.ok(&format!("fs check {drive}")).contains("1 file"));
    assert!(shell.ok(&format!("device report {drive} --used")).lines().count() > 1);
    shell.ok(&format!("device reset {drive} --all"));
    assert_eq!(shell.ok(&format!("device report {drive} --used")).lines().count(), 1);
}

/// What only looks leaves every byte as it is, on a device that is blank too, and stands beside others that only look.
#[test]
fn conventional_drives_are_not_written_when_they_are_read() {
    let shell = Shell::new();
    shell.write("a.sst", bytes(9, 300_000));
    for (name, file) in [
        ("conv:test-conv?time=untimed&data=drive", "drive"),
        ("hftl:flash:test?time=untimed&data=zones&fs=xfs-like", "zones"),
        ("hftl:file:img?fs=f2fs-like", "img"),
        ("disk?fs=f2fs-like", "disk"),
    ] {
        match file {
            "disk" => drop(shell.ok("device create disk?layout=blocks --zones 8 --zone-size 4MiB")),
            "img" => drop(shell.ok("device create img --zones 64 --zone-size 1MiB")),
            _ => drop(shell.ok(&format!("fs mkfs {name}"))),
        }
        let look = |is_store: bool| {
            let before = shell.read(file);
            for verb in ["ls", "df", "check", "dump"] {
                let ended = shell.run(&format!("fs {verb} {name}"));
                assert_eq!(ended.code == Some(0), is_store, "fs {verb} {name}: {}", ended.err);
                assert!(before == shell.read(file), "fs {verb} {name} wrote");
            }
        };
        look(!["disk", "img"].contains(&file));
        shell.ok(&format!("fs mkfs {name} --force"));
        shell.ok(&format!("fs cp {name} a.sst store:/a.sst"));
        look(true);
    }
    let uri: zonda_device::DeviceUri = shell.path().join("disk").to_str().unwrap().parse().unwrap();
    let reader = uri.open_block(zonda_device::OpenMode::ReadOnly).unwrap();
    assert_eq!(shell.ok("fs ls disk?fs=f2fs-like"), "/a.sst\n", "beside another reader");
    assert!(shell.fails(1, "fs rm disk?fs=f2fs-like /a.sst").contains("in use"));
    drop(reader);
    shell.ok("fs rm disk?fs=f2fs-like /a.sst");
}
