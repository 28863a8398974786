//! What the virtual machine is made of, fetched from Debian's packages with apt and unpacked into a cache; nothing is
//! installed.
//!
//! Life cycle of the cache: 1 locked -> 2 packages downloaded and unpacked -> 3 the kernel made ready for QEMU -> 4 the
//! stamp written, which names what is there. Whoever finds the stamp uses the cache as it is.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::kernel;

/// Depends on the newest kernel for virtual machines: small, with NVMe built in.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Always needed: the machine, the guest's programs, and what unpacks the kernel.
const BASE: [&str; 3] = ["qemu-system-x86", "busybox-static", "xz-utils"];

/// The unpacked packages.
pub(crate) struct Cache {
    directory: PathBuf,
}

impl Cache {
    /// The cache with these packages besides the machine itself, fetched now if need be.
    ///
    /// # Errors
    /// Where this is no Debian on x86-64, or apt cannot fetch.
    pub(crate) fn with(tools: &[&str]) -> Result<Self> {
        ensure!(cfg!(target_arch = "x86_64"), "the virtual machine runs on x86-64 only");
        let directory = directory()?;
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let lock = File::create(directory.join("lock")).context("cannot make the lock of the cache")?;
        lock.lock().context("cannot lock the cache")?;
        let cache = Self { directory };
        cache.fetch("base", &BASE)?;
        for tool in tools {
            cache.fetch(tool, &[tool])?;
        }
        cache.prepare_kernel()?;
        Ok(cache)
    }

    /// A program of the cache, or of this machine.
    ///
    /// # Errors
    /// Where there is none.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let path = self.path();
        let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
        found.with_context(|| format!("no program {name}"))
    }

    /// A command that finds its libraries in the cache.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.libraries()).env("PATH", self.path());
        command
    }

    /// The kernel as QEMU starts it fastest.
    pub(crate) fn kernel(&self) -> PathBuf {
        self.directory.join("kernel/vmlinux")
    }

    /// The kernel's modules.
    pub(crate) fn modules(&self) -> PathBuf {
        self.directory.join("kernel/modules")
    }

    fn root(&self) -> PathBuf {
        self.directory.join("root")
    }

    fn path(&self) -> OsString {
        let root = self.root();
        let own = ["usr/bin", "bin", "usr/sbin", "sbin"].map(|directory| root.join(directory));
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let all = own.into_iter().chain(std::env::split_paths(&inherited)).chain(system);
        std::env::join_paths(all).expect("directories of a PATH hold no colon")
    }

    fn libraries(&self) -> OsString {
        let root = self.root();
        let all = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/ceph"];
        std::env::join_paths(all.map(|directory| root.join(directory))).expect("the cache's path holds no colon")
    }

    /// Downloads and unpacks packages with what they depend on and this machine lacks.
    fn fetch(&self, stamp: &str, packages: &[&str]) -> Result<()> {
        let stamp = self.directory.join(format!("{stamp}.fetched"));
        if stamp.exists() {
            return Ok(());
        }
        eprintln!("fetching {} with apt into {}", packages.join(", "), self.directory.display());
        let mut wanted = lacking(packages)?;
        wanted.extend(packages.iter().map(|&package| package.to_owned()));
        wanted.sort_unstable();
        wanted.dedup();
        self.unpack(&wanted, &self.root())?;
        fs::write(&stamp, wanted.join("\n")).with_context(|| format!("cannot write {}", stamp.display()))
    }

    /// Downloads packages into a directory of their own, unpacks them and removes them.
    fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        let downloads = self.directory.join("downloads");
        make_empty(&downloads)?;
        let mut download = Command::new("apt-get");
        download.args(["download", "-qq"]).args(packages).current_dir(&downloads);
        said(&mut download)?;
        for package in fs::read_dir(&downloads).context("cannot list the downloads")? {
            said(Command::new("dpkg").arg("-x").arg(package?.path()).arg(into))?;
        }
        fs::remove_dir_all(&downloads).context("cannot remove the downloads")
    }

    /// Unpacks the kernel package and keeps the image, uncompressed, and the modules.
    fn prepare_kernel(&self) -> Result<()> {
        let kernel = self.directory.join("kernel");
        if kernel.join("vmlinux").exists() {
            return Ok(());
        }
        let package = kernel_package()?;
        eprintln!("fetching {package} with apt");
        let unpacked = self.directory.join("kernel.unpacked");
        make_empty(&unpacked)?;
        self.unpack(std::slice::from_ref(&package), &unpacked)?;
        make_empty(&kernel)?;
        let release = package.trim_start_matches("linux-image-");
        let modules = unpacked.join("lib/modules").join(release).join("kernel");
        fs::rename(&modules, kernel.join("modules")).with_context(|| format!("no modules in {package}"))?;
        let image = unpacked.join("boot").join(format!("vmlinuz-{release}"));
        kernel::extract(self, &image, &kernel.join("vmlinux"))?;
        fs::remove_dir_all(&unpacked).context("cannot remove the unpacked kernel")
    }
}

/// Where the cache is: beside the caches of other programs of this user.
fn directory() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache")
        }
    };
    Ok(base.join("zonda-vm"))
}

/// The packages that installing these would install, without installing them. Asks apt to read the lists of packages
/// once if it does not know them.
fn lacking(packages: &[&str]) -> Result<Vec<String>> {
    let simulate = || {
        let mut command = Command::new("apt-get");
        command.args(["install", "--simulate", "--no-install-recommends"]).args(packages);
        said(&mut command)
    };
    let text = match simulate() {
        Ok(text) => text,
        Err(_) => {
            said(Command::new("apt-get").args(["update", "-qq"]))?;
            simulate()?
        }
    };
    let installed = text.lines().filter_map(|line| line.strip_prefix("Inst "));
    Ok(installed.filter_map(|rest| rest.split(' ').next()).map(str::to_owned).collect())
}

/// The package behind the one that always names the newest kernel.
fn kernel_package() -> Result<String> {
    let text = said(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let depends = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let kernel = depends.map(str::to_owned).find(|package| package.starts_with("linux-image-"));
    kernel.with_context(|| format!("{KERNEL} depends on no kernel"))
}

fn make_empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// Runs a command and returns what it says.
///
/// # Errors
/// With what it says on standard error.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let shown = crate::process::shown(command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("`{shown}`: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
