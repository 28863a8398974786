//! One virtual machine: what it is made of, one run of a program in it, and resets of the guest while QEMU, and with it
//! the state of the zones, lives on.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{cache::Cache, devices::Shape, initramfs::Initramfs, shell::quote};
use crate::clock::sleep;

const KERNEL_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr tsc=reliable \
                           no_timer_check random.trust_cpu=on";
const INIT: &str = include_str!("guest-init.sh");
/// How often the runner looks at what the guest has said.
const POLL: Duration = Duration::from_millis(10);
/// What `timeout` exits with when the time is over.
const TIMED_OUT: i32 = 124;
/// Blocks of the namespace that counts boots.
const COUNTER_BYTES: u64 = 1 << 20;

/// What a machine is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// NVMe ZNS namespaces: /dev/nvme0n1 and on. Those with an append limit get a controller of their own each.
    pub(crate) zns: Vec<Shape>,
    /// Requests that an NVMe drive does in a second, at most; 0 is no limit. A drive that is slower than the emulated processor has
    /// in flight what it was asked for, whatever else this machine does.
    pub(crate) requests_per_second: u32,
    /// null_blk devices: /dev/nullb0 and on.
    pub(crate) null_blk: Vec<Shape>,
    /// Whether the module null_blk is loaded, for programs that make their own devices.
    pub(crate) null_blk_module: bool,
    /// More modules of the kernel, loaded in this order: the name, and options after a space.
    pub(crate) modules: Vec<String>,
    /// Processors of the guest.
    pub(crate) cpus: u32,
    /// Memory of the guest, in MiB.
    pub(crate) memory_mib: u32,
    /// Seconds after which the machine is ended, whatever it does.
    pub(crate) timeout_seconds: u32,
    /// Programs for the guest besides the one that is run, by name.
    pub(crate) tools: Vec<(String, PathBuf)>,
    /// `NAME=VALUE` for the program's environment.
    pub(crate) environment: Vec<String>,
    /// When the guest loses its power: one reset each.
    pub(crate) resets: Vec<Reset>,
    /// More text on a failure: all that the guest's kernel said.
    pub(crate) verbose: bool,
}

/// A power cut of the guest.
#[derive(Clone, Debug)]
pub(crate) struct Reset {
    /// So long after the program was started, or has said what is waited for.
    pub(crate) after: Duration,
    /// The beginning of a line of the program's output; needs [`Show::Nothing`].
    pub(crate) said: Option<String>,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The program's exit status.
    pub(crate) status: i32,
    /// Its standard output, if it was asked for.
    pub(crate) output: String,
}

/// Where the program's standard output goes; its standard error goes to ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// To our standard output.
    Output,
    /// Into [`Ended::output`].
    Nothing,
}

impl Plan {
    /// A machine with one processor, one gigabyte and no device.
    pub(crate) fn new() -> Self {
        Self { cpus: 1, memory_mib: 1024, timeout_seconds: 300, ..Self::default() }
    }

    /// Runs a program in the machine, as `/bin/NAME ARGUMENTS`, until it ends. `program` `sh` is the guest's own shell.
    ///
    /// # Errors
    /// If the machine fails or its time is over; the program's own failure is its exit status.
    pub(crate) fn run(&self, cache: &Cache, program: &str, arguments: &[String], show: Show) -> Result<Ended> {
        let directory = Scratch::new()?;
        let initramfs = self.initramfs(cache, program, arguments)?;
        fs::write(directory.file("initramfs"), initramfs.archive()).context("cannot write the guest's file system")?;
        let mut machine = Machine::start(self, cache, &directory, show)?;
        let played = machine.reset_as_planned(&self.resets);
        let status = machine.wait()?;
        played?;
        let output = fs::read_to_string(directory.file("output")).unwrap_or_default();
        match directory.exit_status() {
            Some(status) => Ok(Ended { status, output }),
            None if status == Some(TIMED_OUT) => {
                bail!("the machine was ended after {} s\n{}", self.timeout_seconds, directory.last_words(self.verbose))
            }
            None => bail!("the machine ended without the program's status\n{}", directory.last_words(true)),
        }
    }

    fn initramfs(&self, cache: &Cache, program: &str, arguments: &[String]) -> Result<Initramfs> {
        let mut guest = Initramfs::new(cache, INIT)?;
        let name = program.rsplit('/').next().unwrap_or(program);
        if name != "sh" {
            let file = if program.contains('/') { PathBuf::from(program) } else { cache.program(program)? };
            guest.program(cache, name, &file)?;
        }
        for (name, file) in &self.tools {
            guest.program(cache, name, file)?;
        }
        guest.modules(cache, &self.modules())?;
        let words = std::iter::once(format!("/bin/{name}")).chain(arguments.iter().cloned());
        let exports = self.environment.iter().filter_map(|pair| pair.split_once('='));
        let exports: String = exports.map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
        let command: Vec<String> = words.map(|word| quote(&word)).collect();
        guest.text("vm/command", &format!("{exports}exec {}\n", command.join(" ")));
        guest.text("vm/conf", &format!("DEVICES='{}' CRASH={}\n", self.devices().join(" "), self.counter()));
        let null_blk = (0..).zip(&self.null_blk).map(|(number, shape)| shape.null_blk(&format!("nullb{number}")));
        guest.text("vm/null_blk", &null_blk.collect::<String>());
        Ok(guest)
    }

    fn modules(&self) -> Vec<(&str, &str)> {
        let mut modules = vec![("virtio_pci", ""), ("virtio_console", "")];
        if self.null_blk_module || !self.null_blk.is_empty() {
            modules.push(("null_blk", "nr_devices=0"));
        }
        modules.extend(self.modules.iter().map(|module| module.split_once(' ').unwrap_or((module, ""))));
        modules
    }

    /// Names of the NVMe devices.
    fn devices(&self) -> Vec<String> {
        self.placed().into_iter().map(|(controller, number, _)| format!("nvme{controller}n{number}")).collect()
    }

    /// The device that counts boots; empty if the guest is not reset.
    fn counter(&self) -> String {
        if self.resets.is_empty() { String::new() } else { format!("nvme0n{}", self.on_first_controller() + 1) }
    }

    fn on_first_controller(&self) -> usize {
        self.zns.iter().filter(|shape| shape.append.is_none()).count()
    }

    /// Every namespace with its controller and its number there: the first controller has all that need no own limit.
    fn placed(&self) -> Vec<(usize, usize, Shape)> {
        let (mut first, mut controllers) = (0, 0);
        let place = |shape: &Shape| match shape.append {
            None => {
                first += 1;
                (0, first, *shape)
            }
            Some(_) => {
                controllers += 1;
                (controllers, 1, *shape)
            }
        };
        self.zns.iter().map(place).collect()
    }

    /// QEMU's arguments for the NVMe controllers and namespaces, whose files are made here.
    fn nvme(&self, directory: &Scratch) -> Result<Vec<String>> {
        let mut arguments = Vec::new();
        if !self.zns.is_empty() || !self.resets.is_empty() {
            arguments.extend(controller(0, 0));
        }
        for (drive, (number, namespace, shape)) in self.placed().into_iter().enumerate() {
            if number > 0 {
                arguments.extend(controller(number, shape.append_shift()));
            }
            let name = format!("zns{drive}");
            let [option, drive] = drive_of(directory, &name, shape.device_bytes())?;
            arguments.extend([option, drive + &self.pace()]);
            arguments.extend(["-device".to_owned(), shape.namespace(&name, &format!("c{number}"), namespace)]);
        }
        if !self.resets.is_empty() {
            arguments.extend(drive_of(directory, "boots", COUNTER_BYTES)?);
            let number = self.on_first_controller() + 1;
            let sizes = "logical_block_size=4096,physical_block_size=4096";
            arguments.extend(["-device".to_owned(), format!("nvme-ns,drive=boots,bus=c0,nsid={number},{sizes}")]);
        }
        Ok(arguments)
    }

    /// The end of a drive's options that slows it down.
    fn pace(&self) -> String {
        match self.requests_per_second {
            0 => String::new(),
            count => format!(",throttling.iops-total={count}"),
        }
    }
}

fn controller(number: usize, append_shift: u32) -> [String; 2] {
    ["-device".to_owned(), format!("nvme,serial=zonda{number},id=c{number},mdts=7,zoned.zasl={append_shift}")]
}

fn drive_of(directory: &Scratch, name: &str, bytes: u64) -> Result<[String; 2]> {
    let path = directory.file(name);
    let file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(bytes).with_context(|| format!("cannot size {}", path.display()))?;
    Ok(["-drive".to_owned(), format!("file={},id={name},format=raw,if=none", path.display())])
}

/// A QEMU that runs.
struct Machine<'a> {
    qemu: Child,
    /// What hands its output and errors on, so that QEMU itself never writes to our files: it would not respect what
    /// is in them.
    hands_on: Vec<Child>,
    monitor: Option<UnixStream>,
    directory: &'a Scratch,
}

impl<'a> Machine<'a> {
    fn start(plan: &Plan, cache: &Cache, directory: &'a Scratch, show: Show) -> Result<Self> {
        // `--foreground` keeps QEMU in our process group: an interrupted run leaves none behind.
        let mut command = cache.command("timeout");
        command.args(["--foreground", "--kill-after=5"]).arg(plan.timeout_seconds.to_string());
        command.arg(cache.program("qemu-system-x86_64")?);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", "tcg"]);
        command.args(["-cpu", "max,la57=off", "-smp", &plan.cpus.to_string(), "-m", &format!("{}M", plan.memory_mib)]);
        command.arg("-kernel").arg(cache.kernel()).arg("-initrd").arg(directory.file("initramfs"));
        command.args(["-append", KERNEL_LINE]);
        command.args(["-serial", &format!("file:{}", directory.file("console").display())]);
        command.args(["-device", "virtio-serial-pci,max_ports=4"]);
        let output = match show {
            Show::Output => PathBuf::from("/dev/stdout"),
            Show::Nothing => directory.file("output"),
        };
        for (number, name, path) in
            [(1, "output", output), (2, "errors", "/dev/stderr".into()), (3, "events", directory.file("events"))]
        {
            command.args(["-chardev", &format!("file,id={name},append=on,path={}", path.display())]);
            command.args(["-device", &format!("virtserialport,chardev={name},nr={number}")]);
        }
        command.args(["-monitor", &format!("unix:{},server=on,wait=off", directory.file("monitor").display())]);
        command.args(plan.nvme(directory)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut qemu = command.spawn().context("cannot start QEMU")?;
        let (output, errors) = (qemu.stdout.take(), qemu.stderr.take());
        let hands_on = [hand_on(output, Stdio::inherit()), hand_on(errors, Stdio::from(std::io::stderr()))];
        Ok(Self { qemu, hands_on: hands_on.into_iter().collect::<Result<_>>()?, monitor: None, directory })
    }

    /// Pulls the plug as often as planned, each time so long after the guest has booted.
    fn reset_as_planned(&mut self, resets: &[Reset]) -> Result<()> {
        for (number, reset) in (1..).zip(resets) {
            let boot = format!("boot {number}");
            let has_booted = |directory: &Scratch| directory.events().contains(&boot);
            let has_said = |directory: &Scratch| reset.said.as_ref().is_none_or(|said| directory.has_said(said));
            if !self.wait_until(has_booted)? || !self.wait_until(has_said)? {
                return Ok(());
            }
            sleep(reset.after);
            if self.directory.exit_status().is_some() {
                return Ok(());
            }
            self.reset()?;
        }
        Ok(())
    }

    /// Waits until something has happened. False if the program has ended instead.
    fn wait_until(&mut self, has_happened: impl Fn(&Scratch) -> bool) -> Result<bool> {
        loop {
            if has_happened(self.directory) {
                return Ok(true);
            }
            let has_ended = self.qemu.try_wait().context("cannot look after QEMU")?.is_some();
            if has_ended || self.directory.exit_status().is_some() {
                return Ok(false);
            }
            sleep(POLL);
        }
    }

    /// Resets the guest as a power cut would; the devices keep their state. The connection stays open: QEMU drops what
    /// it has not read when it is closed.
    fn reset(&mut self) -> Result<()> {
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => {
                none.insert(UnixStream::connect(self.directory.file("monitor")).context("cannot reach QEMU's monitor")?)
            }
        };
        monitor.write_all(b"system_reset\n").context("cannot reset the guest")
    }

    fn wait(&mut self) -> Result<Option<i32>> {
        let status = self.qemu.wait().context("cannot wait for QEMU")?;
        for hands_on in &mut self.hands_on {
            hands_on.wait().context("cannot wait for the program's output")?;
        }
        Ok(status.code())
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        // After an error of ours the guest may still run; if it has ended there is nothing to kill.
        if !matches!(self.qemu.try_wait(), Ok(Some(_))) {
            let _ended = self.qemu.kill().and_then(|()| self.qemu.wait());
        }
    }
}

fn hand_on(from: Option<impl Into<Stdio>>, to: Stdio) -> Result<Child> {
    let from = from.context("QEMU has no output")?;
    Command::new("cat").stdin(from).stdout(to).spawn().context("cannot start cat")
}

/// The directory of one run, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        for attempt in 0..1000_u32 {
            let path = base.join(format!("zonda-vm-{}-{attempt}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
            }
        }
        bail!("no free name for a directory in {}", base.display())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// What the guest's first process has told.
    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("events")).unwrap_or_default();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// Whether the program has said a line that begins so.
    fn has_said(&self, beginning: &str) -> bool {
        let text = fs::read_to_string(self.file("output")).unwrap_or_default();
        text.lines().any(|line| line.starts_with(beginning))
    }

    fn exit_status(&self) -> Option<i32> {
        self.events().iter().find_map(|line| line.strip_prefix("exit ")?.parse().ok())
    }

    /// The end of what the guest's kernel said.
    fn last_words(&self, all: bool) -> String {
        let text = fs::read(self.file("console")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let shown = if all { 60 } else { 15 };
        lines[lines.len().saturating_sub(shown)..].join("\n")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed is in the system's temporary directory, which is cleaned anyway.
        let _removed = fs::remove_dir_all(&self.0);
    }
}
