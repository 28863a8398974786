//! Each command does what its help says, for people and for scripts.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::Shell;

fn filled() -> Shell {
    let shell = Shell::new();
    shell.write("in.tsv", "a\t1\nab\t2\nb\t3\nc\t4\n");
    shell.ok("load s.zonda in.tsv");
    shell
}

#[test]
fn put_get_and_delete() {
    let shell = Shell::new();
    shell.ok("put s.zonda key value");
    assert_eq!(shell.ok("get s.zonda key"), "value\n");
    assert_eq!(shell.ok("get s.zonda key --raw"), "value");
    assert_eq!(shell.ok("get s.zonda 6b6579 --hex"), "76616c7565\n");
    assert_eq!(shell.ok("get s.zonda key --json"), "{\"key\":\"key\",\"value\":\"value\"}\n");
    assert_eq!(shell.run("get s.zonda other").code, Some(1));
    shell.ok("delete s.zonda key other");
    assert_eq!(shell.run("get s.zonda key").code, Some(1));
    let piped = shell.pipe("put s.zonda big -", &[b'x'; 100_000]);
    assert_eq!(piped.code, Some(0), "{}", piped.err);
    assert_eq!(shell.ok("get s.zonda big --raw").len(), 100_000);
    assert_eq!(shell.pipe("put s.zonda --hex 00 -", b"0a0B\n ff\r\n").code, Some(0));
    assert_eq!(shell.ok("get s.zonda --hex 00"), "0a0bff\n");
    let odd = shell.pipe("put s.zonda --hex 00 -", b"0a0\n");
    assert!(odd.code == Some(1) && odd.err.contains("value: 3 hexadecimal digits"), "{odd:?}");
}

#[test]
fn keys_are_deleted_by_prefix() {
    let shell = filled();
    shell.fails(2, "delete s.zonda");
    shell.fails(2, "delete s.zonda b --prefix a");
    let deleted = shell.run("delete s.zonda --prefix a");
    assert!(deleted.code == Some(0) && deleted.err.contains("2 keys"), "{deleted:?}");
    assert_eq!(shell.ok("scan s.zonda --keys"), "b\nc\n");
    shell.ok("put s.zonda --hex ff00 01");
    shell.ok("delete s.zonda --hex --prefix ff");
    assert_eq!(shell.ok("scan s.zonda --keys"), "b\nc\n");
}

#[test]
fn scans_of_all_kinds() {
    let shell = filled();
    let keys = |arguments: &str| shell.ok(&format!("scan s.zonda --keys {arguments}")).replace('\n', " ");
    assert_eq!(keys(""), "a ab b c ");
    assert_eq!(keys("--prefix a"), "a ab ");
    assert_eq!(keys("--from ab --to c"), "ab b ");
    assert_eq!(keys("--reverse --limit 2"), "c b ");
    assert_eq!(keys("--from c --to a"), "");
    assert_eq!(keys("--hex --from 6162 --limit 1"), "6162 ");
    assert_eq!(shell.ok("scan s.zonda --limit 1 --json"), "{\"key\":\"a\",\"value\":\"1\"}\n");
}

#[test]
fn named_trees_are_listed_dropped_and_made_only_by_writes() {
    let shell = filled();
    assert_eq!(shell.ok("tree list s.zonda"), "");
    for tree in ["users", "groups"] {
        shell.ok(&format!("put s.zonda key value --tree {tree}"));
    }
    assert!(shell.fails(1, "delete s.zonda key --tree no").contains("no tree"));
    assert_eq!(shell.ok("tree list s.zonda"), "groups\nusers\n");
    assert_eq!(shell.ok("tree list s.zonda --json"), "[\"groups\",\"users\"]\n");
    shell.ok("tree drop s.zonda users");
    assert!(shell.fails(1, "tree drop s.zonda users").contains("users"));
    assert_eq!(shell.ok("tree list s.zonda"), "groups\n");
    assert!(shell.fails(1, "get s.zonda key --tree users").contains("users"));
    assert_eq!(shell.ok("get s.zonda a"), "1\n");
}

#[test]
fn stat_zones_and_check_print_for_people_and_as_json() {
    let shell = filled();
    let stat = shell.ok("stat s.zonda");
    assert!(["usable", "reserve", "dead", "leaf buffers", "levels"].iter().all(|word| stat.contains(word)), "{stat}");
    assert!(shell.ok("stat s.zonda --json").starts_with('{'));
    assert!(shell.ok("zones s.zonda").contains("more empty zones"));
    assert!(shell.ok("zones s.zonda --list").contains("meta"));
    let json = shell.ok("zones s.zonda --json");
    assert!(json.lines().count() > 1000 && json.lines().all(|line| line.starts_with('{')));
    assert!(shell.ok("check s.zonda").contains("all is well"));
    assert!(shell.ok("check s.zonda --json").contains("\"findings\":[]"));
}

#[test]
fn reading_commands_leave_the_file_alone() {
    let shell = filled();
    let before = shell.read("s.zonda");
    for command in ["get s.zonda a", "scan s.zonda", "stat s.zonda", "zones s.zonda", "check s.zonda", "dump s.zonda"] {
        shell.ok(command);
    }
    assert!(before == shell.read("s.zonda"));
}

#[test]
fn compact_backup_and_restore() {
    let shell = filled();
    let dump = shell.ok("dump s.zonda");
    assert!(shell.ok("compact s.zonda").contains("live leaves"));
    assert!(shell.ok("compact s.zonda --json").contains("live_page_bytes_after"));
    shell.ok("backup s.zonda b.zonda");
    shell.ok("restore b.zonda r.zonda");
    assert_eq!(shell.ok("dump r.zonda"), dump);
    assert!(shell.fails(1, "restore b.zonda r.zonda").contains("exists"));
}

#[test]
fn devices_are_made_reported_and_reset() {
    let shell = Shell::new();
    shell.ok("device create d.zoned --zones 32 --zone-size 1MiB --max-active 8");
    assert!(shell.fails(1, "device create d.zoned").contains("d.zoned"));
    let report = shell.ok("device report d.zoned");
    assert_eq!(report.lines().count(), 33);
    assert!(report.contains("max active 8") && report.contains("max append no limit\n"), "{report}");
    assert!(
        report.contains(
            "  start: 0x000000800, len 0x000800, cap 0x000800, wptr 0x000000 reset:0 non-seq:0, zcond: 1(em)"
        ),
        "{report}"
    );
    shell.ok("put d.zoned key value --memory 4MiB");
    assert!(shell.ok("device report d.zoned --used").lines().count() > 1);
    assert_eq!(shell.ok("device report d.zoned --json").lines().count(), 33);
    shell.fails(2, "device reset d.zoned");
    shell.fails(1, "device reset d.zoned --zone 99");
    shell.ok("device reset d.zoned --all");
    assert_eq!(shell.ok("device report d.zoned --used").lines().count(), 1);
    // Of a modelled drive in memory there is the shape; what would be made of it nobody would see again.
    assert!(shell.ok("device report flash:zn540 --used").contains("904 zones"));
    for name in ["flash:test?data=f", "hftl:f"] {
        assert!(shell.fails(2, &format!("device create {name}")).contains("`zonda put`"), "{name}");
    }
    for command in ["reset flash:test?data=f --all", "format flash:test?data=f"] {
        assert!(shell.fails(1, &format!("device {command}")).contains("no f;"), "{command}");
    }
    assert!(!shell.path().join("f").exists());
    let said = shell.fails(2, "device create f?zones=40&max_open=3 --zones 50");
    assert!(said.contains("--zones is 50") && said.contains("is 40"), "{said}");
    shell.ok("device create f?zones=40 --zones 40 --zone-size 1MiB");
}

#[test]
fn a_replay_says_which_policies_there_are_and_takes_0_for_no_limit() {
    let shell = Shell::new();
    let said = shell.fails(2, "replay lsm:1 --policy nope");
    assert!(said.contains("caza") && said.contains("oracle"), "{said}");
    let replay = |limit: &str| shell.ok(&format!("replay lsm:1 --policy liza-zns {limit}"));
    assert_eq!(replay("--max-active 0"), replay(""));
}

#[test]
fn a_replay_of_the_papers_load_is_on_the_zones_of_its_experiments() {
    let shell = Shell::new();
    shell.write("t", "zonda-trace 1\n0 directory /db\n");
    let zone_bytes = |trace: &str| {
        let said = shell.ok(&format!("replay {trace} --policy liza-caza --json"));
        serde_json::from_str::<serde_json::Value>(&said).unwrap()["zone_bytes"].as_u64().unwrap()
    };
    assert_eq!(["lsm:1", "t"].map(zone_bytes), [1 << 30, 1_000_000_000]);
    assert_eq!(zone_bytes("lsm:1 --zone-size 1200MiB"), 1200 << 20);
    assert_eq!(zonda_bench::traces::zone_bytes("caza:3"), 1 << 30);
}

#[test]
fn a_device_of_blocks_is_made_if_asked_for() {
    let shell = Shell::new();
    shell.ok("device create b?layout=blocks --zones 32 --zone-size 1MiB");
    assert!(shell.fails(1, "device report b").contains('b'), "it has no zones");
    shell.ok("put b?zone_size=1MiB key value --memory 4MiB");
    assert!(shell.ok("stat b?zone_size=1MiB --memory 4MiB").contains("in place"));
    for limit in ["--max-open 3", "--max-active 5", "--zone-capacity 4KiB"] {
        assert!(shell.fails(2, &format!("device create c?layout=blocks {limit}")).contains("layout=blocks"), "{limit}");
    }
    assert!(!shell.path().join("c").exists());
}

#[test]
fn every_command_explains_itself_with_examples() {
    let shell = Shell::new();
    let words = "load get put delete scan stat tree zones check dump compact backup restore device bench";
    for command in words.split(' ').chain(["device create", "device report", "device reset"]) {
        let help = shell.ok(&format!("{command} --help"));
        assert!(help.contains("zonda ") && help.contains("Example"), "{command}: {help}");
    }
    let help = shell.ok("--help");
    assert!(help.contains("Exit codes") && words.split(' ').all(|word| help.contains(word)), "{help}");
}

/// Who copies a store with a log of its own has to know what to name, and where the copy's log is.
#[test]
fn copies_say_where_the_log_is() {
    let shell = Shell::new();
    for command in ["backup", "restore", "fs backup", "fs restore"] {
        let help = shell.ok(&format!("{command} --help"));
        let notes = help.split_once("Examples:").unwrap().1;
        assert!(notes.contains("log") && notes.contains("pages") || notes.contains("--log-on"), "{command}: {help}");
    }
    shell.ok("put apart key value --memory 4MiB --log-on log");
    shell.fails(1, "backup apart copy --memory 4MiB");
    shell.ok("backup apart copy --memory 4MiB --log-on log");
    assert_eq!(shell.ok("get copy key --memory 4MiB").trim(), "value", "its log is beside its pages");
}

#[test]
fn the_help_names_every_key_of_a_uri() {
    let shell = Shell::new();
    let (help, said) = (shell.ok("--help"), shell.fails(2, "put mem:?wings=2 k v"));
    let known: Vec<&str> = said.trim().split("known are ").nth(1).unwrap().split(", ").collect();
    assert!(known.len() > 10 && known.iter().all(|key| help.contains(key)), "{known:?}: {help}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let shell = Shell::new();
    shell.write("in.tsv", (0..20_000).map(|n| format!("{n}\tvalue\n")).collect::<String>());
    shell.ok("load s.zonda in.tsv");
    let mut child = shell.command("scan s.zonda").spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0));
}

#[test]
fn a_store_lies_on_a_host_ftl() {
    let shell = Shell::new();
    shell.ok("put hftl:v.zoned?zones=64&zone_size=1MiB key value");
    assert_eq!(shell.ok("get hftl:v.zoned?zone_size=1MiB key"), "value\n");
    shell.ok("put hftl:v.zoned?zone_size=1MiB key other");
    assert_eq!(shell.ok("get hftl:v.zoned?zone_size=1MiB key"), "other\n");
    assert!(shell.fails(1, "get v.zoned key").contains("v.zoned"), "the zones below hold no store");
}

#[test]
fn devices_are_cloned() {
    let shell = filled();
    shell.ok("device clone s.zonda copy.zonda");
    shell.ok("put copy.zonda a other");
    assert_eq!((shell.ok("get s.zonda a"), shell.ok("get copy.zonda a")), ("1\n".into(), "other\n".into()));
    // What is there stays, whatever it is.
    shell.write("notes.txt", "notes");
    for there in ["copy.zonda", "s.zonda", "notes.txt"] {
        assert!(shell.fails(1, &format!("device clone s.zonda {there}")).contains(there));
    }
    assert_eq!((shell.ok("get s.zonda a"), shell.ok("get copy.zonda a")), ("1\n".into(), "other\n".into()));
    assert_eq!(shell.read("notes.txt"), b"notes");
    shell.fails(1, "device clone in.tsv other");
    shell.fails(2, "device clone mem: other");
    // A modelled drive's file too.
    shell.ok("put flash:test?data=drive.img&time=untimed key value");
    shell.ok("device clone drive.img run.img");
    assert_eq!(shell.ok("get flash:test?data=run.img&time=untimed key"), "value\n");
}

#[test]
fn modelled_drives_fail_as_their_name_says() {
    let shell = Shell::new();
    let bench =
        |faults: &str| format!("device bench flash:test?faults={faults} --virtual --operation write --count 50");
    shell.ok(&bench("read:media@1"));
    assert!(shell.fails(1, &bench("write:media@20")).contains("medium"));
    assert!(shell.fails(1, &bench("write/0:read-only@3")).contains("read-only"));
    assert!(shell.fails(2, &bench("write:slow")).contains("delay-3ms"));
    let p50 = |faults: &str| {
        let report = shell.ok(&format!("{} --json", bench(faults)));
        let at = report.find("\"p50\":").unwrap_or_else(|| panic!("{report}"));
        report[at + 6..].split([',', '}']).next().unwrap().trim().parse::<f64>().unwrap()
    };
    assert!(p50("write:delay-2ms") > p50("read:media@1") + 1_900.0);
    // A store meets them, too: it says what failed, and what was synced before is there.
    shell.ok("put flash:test?data=d.img&time=untimed key value");
    shell.fails(1, "put flash:test?data=d.img&time=untimed&faults=any:power-lost@30+ other value");
    assert_eq!(shell.ok("get flash:test?data=d.img&time=untimed key"), "value\n");
}

#[test]
fn modelled_drives_are_listed_measured_and_replayed() {
    let shell = Shell::new();
    assert!(shell.ok("device profiles").contains("splitzns") && shell.ok("device profiles zn540").contains("sources"));
    let report = shell
        .ok("device bench flash:test --virtual --operation mixed --count 300 --trace t.txt --timeline t.svg --json");
    assert!(report.contains("amplification") && report.contains("virtual time"), "{report}");
    let replayed = shell.ok("device replay flash:test t.txt");
    assert_eq!(replayed, shell.ok("device replay flash:test t.txt"));
    assert!(shell.fails(1, "device replay flash:test t.svg").contains("t.svg: line 1"));
    for (drive, command, why) in [
        ("test", "reset 9999", "zone 9999 of a drive with"),
        ("test", "append 0 9999999999", "it takes"),
        ("test", "read 999999999999 4096", "the drive has"),
        ("test", "split 0", "does not split"),
        ("test-conv", "open 0", "no zones"),
        ("splitzns?scale=1/8", "reset-sub 0 99", "subzone 99 of a zone with 16"),
    ] {
        shell.write("own.txt", format!("0 flush\n7 {command}\n"));
        let said = shell.fails(1, &format!("device replay flash:{drive} own.txt"));
        assert!(said.contains(&format!("own.txt: line 2 of the trace: `7 {command}`")) && said.contains(why), "{said}");
    }
    assert!(shell.fails(2, "device bench mem: --virtual").contains("--virtual"));
    for unknown in ["device profiles nope", "device replay flash:nope own.txt", "device replay flash:test?k=x own.txt"]
    {
        shell.fails(2, unknown);
    }
}

#[test]
fn a_log_on_another_device_is_made_needed_and_kept() {
    let shell = Shell::new();
    shell.ok("put s.zonda key value --log-on file:log.zonda");
    assert!(shell.path().join("log.zonda").exists());
    assert_eq!(shell.ok("get s.zonda key --log-on log.zonda"), "value\n", "a path is as good as a URI");
    let without = shell.run("get s.zonda key");
    assert!(without.code != Some(0) && without.err.contains("log"), "{without:?}");
    // The log of another store is none of this one.
    shell.ok("put other.zonda key value --log-on other-log.zonda");
    let foreign = shell.run("get s.zonda key --log-on other-log.zonda");
    assert!(foreign.code != Some(0) && !foreign.err.is_empty(), "{foreign:?}");
    shell.ok("put plain.zonda key value");
    let unwanted = shell.run("get plain.zonda key --log-on log.zonda");
    assert!(unwanted.code != Some(0) && !unwanted.err.is_empty(), "{unwanted:?}");
    assert!(shell.ok("check s.zonda --log-on log.zonda").contains("all is well"));
    assert_eq!(shell.ok("get s.zonda key --log-on log.zonda"), "value\n");
}
