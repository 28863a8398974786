//! What `load` takes in comes out again, in every format; what it cannot take it names.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use common::Shell;

#[test]
fn tab_separated_values_round_trip() {
    let shell = Shell::new();
    let input = "a\t1\nb\\t\\\\\tline\\nline\nbär\tvalue\twith tab\n\\x00\\xff\t\n";
    shell.write("in.tsv", input);
    let loaded = shell.run("load s.zonda in.tsv");
    assert_eq!(loaded.code, Some(0), "{}", loaded.err);
    assert!(loaded.err.contains("4 pairs"), "{}", loaded.err);
    let out = shell.ok("scan s.zonda");
    assert_eq!(out, "\\x00\\xff\t\na\t1\nb\\t\\\\\tline\\nline\nbär\tvalue\\twith tab\n");
    let again = shell.pipe("load again.zonda --format tsv", out.as_bytes());
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(shell.ok("scan again.zonda"), out);
}

#[test]
fn comma_separated_values_by_position_and_by_name() {
    let shell = Shell::new();
    shell.write("in.csv", "k1,v1,x\n\"k,2\",\"v\n2\"\n");
    shell.ok("load s.zonda in.csv");
    assert_eq!(shell.ok("scan s.zonda"), "k,2\tv\\n2\nk1\tv1\n");
    shell.write("people.csv", "name,age,id\nada,36,7\nbob,40,8\n");
    shell.ok("load people.zonda people.csv --key id --value name");
    assert_eq!(shell.ok("scan people.zonda"), "7\tada\n8\tbob\n");
    assert!(shell.fails(1, "load p.zonda people.csv --key nobody").contains("name, age, id"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    let shell = Shell::new();
    for (ending, text) in [("tsv", "k\tv\n"), ("csv", "k,v\n"), ("jsonl", "{\"key\":\"k\",\"value\":\"v\"}\n")] {
        shell.write(&format!("in.{ending}"), format!("\u{feff}{text}"));
        shell.ok(&format!("load {ending}.zonda in.{ending}"));
        assert_eq!(shell.ok(&format!("scan {ending}.zonda")), "k\tv\n", "{ending}");
    }
}

#[test]
fn a_dump_of_all_trees_loads_as_the_same_store() {
    let shell = Shell::new();
    shell.ok("put s.zonda a 1");
    shell.ok("put s.zonda u ada --tree users");
    shell.ok("put s.zonda --hex 00ff fe --tree users");
    let dump = shell.ok("dump s.zonda");
    assert_eq!(dump.lines().count(), 3);
    assert!(dump.contains(r#"{"key":"a","value":"1"}"#), "{dump}");
    assert!(dump.contains(r#""tree":"users""#) && dump.contains(r#""key_hex":"00ff""#), "{dump}");
    let loaded = shell.pipe("load copy.zonda - --format jsonl", dump.as_bytes());
    assert_eq!(loaded.code, Some(0), "{}", loaded.err);
    assert_eq!(shell.ok("dump copy.zonda"), dump);
    assert_eq!(shell.ok("get copy.zonda u --tree users"), "ada\n");
}

#[test]
fn a_dump_has_trees_without_pairs() {
    let shell = Shell::new();
    shell.ok("put s.zonda a 1 --tree empty");
    shell.ok("delete s.zonda a --tree empty");
    let dump = shell.ok("dump s.zonda");
    assert_eq!(dump, "{\"tree\":\"empty\"}\n");
    let loaded = shell.pipe("load copy.zonda - --format jsonl", dump.as_bytes());
    assert!(loaded.code == Some(0) && loaded.err.contains("0 pairs"), "{}", loaded.err);
    assert_eq!(shell.ok("tree list copy.zonda"), shell.ok("tree list s.zonda"));
    assert_eq!(shell.ok("dump copy.zonda"), dump);
}

/// Each byte of it is six in JSON.
#[test]
fn a_dump_of_the_longest_value_that_is_all_zeros_loads_again() {
    let shell = Shell::new();
    let value = vec![0; zonda::limits::VALUE_BYTES_MAX];
    assert_eq!(shell.pipe("put s.zonda zeros -", &value).code, Some(0));
    let loaded = shell.pipe("load copy.zonda - --format jsonl", shell.ok("dump s.zonda").as_bytes());
    assert_eq!(loaded.code, Some(0), "{}", loaded.err);
    assert!(shell.ok("dump copy.zonda") == shell.ok("dump s.zonda"), "the same pairs");
}

#[test]
fn json_values_of_any_kind() {
    let shell = Shell::new();
    let lines = "{\"key\":\"n\",\"value\":{\"b\":[1,2]}}\n\n{\"key\":\"s\",\"value\":\"text\"}\n";
    shell.write("in.jsonl", lines);
    shell.ok("load s.zonda in.jsonl");
    assert_eq!(shell.ok("get s.zonda n"), "{\"b\":[1,2]}\n");
    assert_eq!(shell.ok("get s.zonda s --json"), "{\"key\":\"s\",\"value\":\"text\"}\n");
}

#[test]
fn sosd_keys_are_in_numeric_order() {
    let shell = Shell::new();
    let numbers = [3_u64, 256, 1, u64::MAX];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    shell.write("keys_uint64", &bytes);
    shell.ok("load s.zonda keys_uint64 --format sosd");
    let keys: Vec<String> = shell.ok("scan s.zonda --hex").lines().map(str::to_owned).collect();
    assert_eq!(keys[0], "0000000000000001\t0000000000000001");
    assert_eq!(keys[1], "0000000000000100\t0000000000000000");
    assert_eq!(keys[2], "ffffffffffffffff\t0000000000000002");
    shell.write("short", &bytes[..20]);
    assert!(shell.fails(1, "load t.zonda short --format sosd").contains("1 of 3"));
}

#[test]
fn a_malformed_line_is_named_and_ends_the_load_unless_it_is_to_be_skipped() {
    let shell = Shell::new();
    for (name, bad, why) in [
        ("in.tsv", "a\t1\nno tab here\nb\\q\t2\nc\t3\n", "no tab"),
        ("in.csv", "a,1\nlonely\nb,2\nlonely\nc,3\n", "column"),
        ("in.jsonl", "{\"key\":\"a\",\"value\":1}\n{\"key\":}\n{}\n{\"key\":\"c\",\"value\":3}\n", "column"),
    ] {
        shell.write(name, bad);
        let store = format!("{name}.zonda");
        let said = shell.fails(1, &format!("load {store} {name}"));
        assert!(said.contains("line 2") && said.contains(why), "{said}");
        assert!(said.contains("1 pairs before it"), "{said}");
        assert_eq!(shell.ok(&format!("scan {store} --keys")), "a\n", "what came before is stored");
        let skipped = shell.run(&format!("load {store} {name} --skip-bad"));
        assert_eq!(skipped.code, Some(0), "{}", skipped.err);
        assert!(skipped.err.contains("line 2") && skipped.err.contains("2 bad records"), "{}", skipped.err);
        assert!(shell.ok(&format!("scan {store} --keys")).ends_with("c\n"));
    }
}

#[test]
fn a_load_that_nobody_listens_to_loads_all_the_same() {
    let shell = Shell::new();
    shell.write("in.tsv", "a\t1\nno tab here\nb\t2\n");
    assert_eq!(shell.unread("load s.zonda in.tsv --skip-bad"), Some(0));
    assert_eq!(shell.ok("scan s.zonda"), "a\t1\nb\t2\n");
    assert_eq!(shell.unread("load s.zonda in.tsv"), Some(1));
    assert_eq!(shell.unread("scan s.zonda"), Some(0));
}

#[test]
fn a_full_store_says_how_much_is_loaded() {
    let shell = Shell::new();
    let value = "v".repeat(1000);
    shell.write("in.tsv", (0..40_000).map(|n| format!("{n:05}\t{value}\n")).collect::<String>());
    let said = shell.fails(1, "load s.zonda?zones=32&zone_size=1MiB in.tsv --memory 4MiB");
    let (loaded, why) = said.split_once(" pairs before it are loaded: ").unwrap_or_else(|| panic!("{said}"));
    assert!(why.contains("no space"), "{said}");
    let loaded: usize = loaded.trim_start_matches("zonda: ").replace(',', "").parse().unwrap();
    assert!(loaded > 1000, "{said}");
    assert_eq!(shell.ok("scan s.zonda --keys --memory 4MiB").lines().count(), loaded);
}

#[test]
fn a_load_fits_the_shortest_zones() {
    let shell = Shell::new();
    shell.write("in.tsv", (0..2_000).map(|n| format!("{n:05}\t{}\n", "v".repeat(300))).collect::<String>());
    shell.ok("load s.zonda?zone_size=32KiB&zones=6000 in.tsv --memory 2MiB");
    assert_eq!(shell.ok("scan s.zonda --keys --memory 2MiB").lines().count(), 2_000);
}

#[test]
fn options_of_columns_are_for_columns() {
    let shell = Shell::new();
    shell.write("in.jsonl", "{\"key\":\"a\",\"value\":1}\n");
    for option in ["--key a", "--value b", "--header"] {
        assert!(shell.fails(2, &format!("load s.zonda in.jsonl {option}")).contains("--format csv"), "{option}");
    }
    assert!(!shell.path().join("s.zonda").exists());
}

#[test]
fn keys_and_values_over_their_limits_are_malformed() {
    let shell = Shell::new();
    shell.write("trees.jsonl", "{\"key\":\"a\",\"value\":1}\n{\"tree\":\"\",\"key\":\"b\",\"value\":2}\n");
    assert!(shell.fails(1, "load t.zonda trees.jsonl").contains("line 2: a tree name of 0 bytes"));
    shell.ok("load t.zonda trees.jsonl --skip-bad");
    shell.write("in.tsv", format!("{}\tv\n", "k".repeat(1025)));
    let said = shell.fails(1, "load s.zonda in.tsv");
    assert!(said.contains("line 1") && said.contains("1025") && said.contains("1024"), "{said}");
}

#[test]
fn ten_thousand_lines_in_random_order() {
    let shell = Shell::new();
    let lines = (0..10_000_u64).map(|n| format!("{:06}\t{n}\n", n * 7919 % 10_007));
    shell.write("in.tsv", lines.collect::<String>());
    shell.ok("load s.zonda in.tsv --memory 4MiB");
    let keys = shell.ok("scan s.zonda --keys --memory 4MiB");
    assert_eq!(keys.lines().count(), 10_000);
    assert!(keys.lines().is_sorted());
    assert!(shell.ok("check s.zonda").contains("all is well"));
}
