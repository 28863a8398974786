//! The recipes of `docs/embedding.md` and the example of the README do what is said of them: `recipes` has a file for each, which is what
//! the document has.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

/// The examples of a document, from behind the line that begins one.
fn examples(document: &str, begins: &str) -> Vec<String> {
    let ends = |text: &str| text.split("```").next().unwrap().to_owned();
    document.split(begins).skip(1).map(ends).collect()
}

#[test]
fn the_documents_have_what_is_run_here() {
    let run = [
        include_str!("recipes/counters.rs"),
        include_str!("recipes/time_series.rs"),
        include_str!("recipes/entries_that_expire.rs"),
        include_str!("recipes/many_threads.rs"),
        include_str!("recipes/salvage.rs"),
    ];
    assert_eq!(examples(include_str!("../../../docs/embedding.md"), "```rust\n"), run);
    assert_eq!(examples(include_str!("../../../README.md"), "```rust,no_run\n"), [include_str!("recipes/readme.rs")]);
}

mod readme {
    include!("recipes/readme.rs");

    /// Alone in naming a file of the current directory.
    #[test]
    fn its_example_runs() {
        let directory = tempfile::tempdir().unwrap();
        std::env::set_current_dir(directory.path()).unwrap();
        main().unwrap();
        assert!(directory.path().join("app.zonda").exists());
    }
}

mod counters {
    include!("recipes/counters.rs");

    #[test]
    fn they_count_and_move() {
        let db = Db::open("mem:").unwrap();
        let hits = |page| db.tree("hits").unwrap().get(page).unwrap();
        (0..300).for_each(|_| count(&db, "/a").unwrap());
        assert_eq!(hits("/a"), Some(300_u64.to_be_bytes().to_vec()));
        rename(&db, "/a", "/b").unwrap();
        assert_eq!((hits("/a"), hits("/b")), (None, Some(300_u64.to_be_bytes().to_vec())));
        rename(&db, "/b", "/b").unwrap();
        rename(&db, "/a", "/c").unwrap();
        assert_eq!((hits("/b"), hits("/c")), (Some(300_u64.to_be_bytes().to_vec()), None));
    }
}

mod time_series {
    include!("recipes/time_series.rs");

    #[test]
    fn the_newest_come_first_and_old_ones_go() {
        let readings = zonda::Db::open("mem:").unwrap().tree("readings").unwrap();
        for (sensor, second) in (0..3).flat_map(|sensor| (0..600).map(move |second| (sensor, second))) {
            readings.put(key(sensor, second), second.to_string()).unwrap();
        }
        let found = newest(&readings, 1, 2).unwrap();
        assert_eq!(found, [599, 598].map(|second: u64| (key(1, second).to_vec(), second.to_string().into_bytes())));
        assert_eq!(forget_before(&readings, 1, 500).unwrap(), 500);
        let left = [0, 1, 2].map(|sensor: u32| readings.prefix(sensor.to_be_bytes()).unwrap().count_pairs().unwrap());
        assert_eq!(left, [600, 100, 600]);
    }
}

mod entries_that_expire {
    include!("recipes/entries_that_expire.rs");

    #[test]
    fn they_are_kept_for_a_day() {
        let cache = zonda::Db::open("mem:").unwrap().tree("cache").unwrap();
        (0..=30).for_each(|hour| put(&cache, hour, "name", b"value").unwrap());
        assert_eq!((expire(&cache, 30).unwrap(), expire(&cache, 30).unwrap(), expire(&cache, 3).unwrap()), (6, 0, 0));
        assert_eq!(cache.first().unwrap().unwrap().0, b"\0\0\0\x06name");
    }
}

mod many_threads {
    include!("recipes/many_threads.rs");

    #[test]
    fn each_job_is_done() {
        const JOBS: u64 = 300;
        let db = Db::open("mem:").unwrap();
        work(&db, JOBS).unwrap();
        assert!(db.tree("jobs").unwrap().iter().unwrap().next().is_none());
        assert_eq!(db.iter().unwrap().count_pairs().unwrap(), JOBS);
    }
}

mod salvage {
    include!("recipes/salvage.rs");

    const WRITES: u64 = 60;

    /// What a crash behind `WRITES` synced puts leaves.
    fn crashed(at: &Path) -> Vec<u8> {
        let uri = file_uri(at).unwrap();
        let db = Options::new().memory(4 << 20).zone_bytes(1 << 20).capacity(80 << 20).open(&uri).unwrap();
        (0..WRITES).for_each(|number| db.put(number.to_be_bytes(), [7; 10]).and_then(|()| db.sync()).unwrap());
        std::fs::read(at).unwrap()
    }

    #[test]
    fn a_store_is_opened_whole_or_up_to_the_damage() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().join("app.zonda");
        assert!(open_or_salvage(&at).is_err() && !at.exists());
        let image = crashed(&at);
        let pairs = |db: &Db| db.iter().unwrap().count_pairs().unwrap();
        assert_eq!(pairs(&open_or_salvage(&at).unwrap()), WRITES);
        let with_damage = |byte: usize| {
            let mut damaged = image.clone();
            damaged[byte] ^= 1;
            std::fs::write(&at, &damaged).unwrap();
            open_or_salvage(&at).ok().filter(|db| db.log_left_out().unwrap().is_some())
        };
        let written =
            (0..image.len()).step_by(4096).filter(|&block| image[block..block + 64].iter().any(|&byte| byte != 0));
        let salvaged = written.rev().find_map(|block| with_damage(block + 40)).expect("some of it is log");
        let left = pairs(&salvaged);
        assert!(left > 0 && left < WRITES, "{left}");
        assert!(matches!(salvaged.put("bern", "capital"), Err(Error::ReadOnly)));
    }
}
