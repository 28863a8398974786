//! C libraries opened at run time.
//!
//! Safe code has no way to call a function whose address is found while the program runs. The declarations beside each
//! table are copied by hand from the headers of the versions that are named there, and are what must be right.

use std::ffi::{CStr, CString, c_void};

/// An open library. Never closed: its threads and its functions live as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
    /// By which it was found.
    pub(crate) name: &'static str,
}

impl Library {
    /// Opens the first of `names` that is there.
    ///
    /// # Errors
    /// The loader's words for the last one.
    pub(crate) fn open(names: &[&'static str]) -> Result<Self, String> {
        let mut why = String::new();
        for name in names {
            let Ok(file) = CString::new(*name) else { continue };
            // SAFETY: `file` is a C string that outlives the call. Opening runs the library's initialisers, which is what we
            // want of the engines named by our own tables.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !handle.is_null() {
                return Ok(Self { handle, name });
            }
            why = last_error();
        }
        Err(why)
    }

    /// The address of a function.
    ///
    /// # Errors
    /// When the library has none of that name.
    pub(crate) fn address(self, name: &str) -> Result<*mut c_void, String> {
        let symbol = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the handle came from dlopen and is never closed; `symbol` is a C string that outlives the call.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() { Err(format!("it has no function {name}")) } else { Ok(address) }
    }
}

fn last_error() -> String {
    // SAFETY: dlerror returns a C string of this thread's last failure, valid until its next call here, or null.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "it cannot be opened".to_owned();
    }
    // SAFETY: not null, and a C string by dlerror's contract; copied at once.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

/// A table of C functions, each found by its field's name.
macro_rules! functions {
    ($(#[$note:meta])* struct $table:ident { $(fn $name:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)* }) => {
        $(#[$note])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?),* }

        impl $table {
            /// Finds all of them.
            ///
            /// # Errors
            /// Names the first that is missing.
            pub(super) fn find(library: $crate::library::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let address = library.address(stringify!($name))?;
                        // SAFETY: the address is of the C function of this name, whose declaration the table repeats.
                        unsafe {
                            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                                address,
                            )
                        }
                    }),*
                })
            }
        }
    };
}

pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_an_error_with_words() {
        assert!(Library::open(&["libno-such-engine.so.1"]).unwrap_err().contains("no-such-engine"));
        let libc = Library::open(&["libno-such-engine.so.1", "libc.so.6"]).unwrap();
        assert!(libc.address("strlen").is_ok() && libc.name == "libc.so.6");
        assert!(libc.address("strlonger").unwrap_err().contains("strlonger"));
    }
}
