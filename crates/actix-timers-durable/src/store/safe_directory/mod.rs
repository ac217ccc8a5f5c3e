//! Directories that no other user of the machine controls: checked before anything in them is opened or changed.
//!
//! In the directory of another user a link could lead a process to a file out of that user's reach: root would read,
//! change or replace it. The rules, on Unix:
//!
//! - The directory is of the process's user or of root, and nobody else may write to it.
//! - A symbolic link that leads to it is of the process's user or of root: a data directory on another disk is usual,
//!   and the owner of a link can let it lead anywhere later.
//! - Below a directory to which all may write, such as `/tmp`, each directory and link of the path has one of these
//!   owners: others may have been there first. Elsewhere the owner of a directory decides about its entries, and the
//!   directories above are the administrator's to protect.
//! - Everything in the directory is a directory or a file with one name, and has one of these owners.
//! - The directory is then 0700, which keeps other users from everything below it. Files are 0600 in addition, in case they
//!   are moved elsewhere; SQLite gives those that it makes the mode of the database.
//!
//! Then only the process's user and root can change anything between the checks and the use. Other systems have no such
//! owners and modes: nothing is checked or set.
//!
//! Nothing here knows the database. Modes are set through open files, and no symbolic link is followed to one. An error of a
//! check contains that of the store.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::{check_contents, create, open_or_create, options, tighten};
#[cfg(unix)]
pub(crate) use unix::{check_contents, create, open_or_create, options, tighten};

/// The reason why a directory, a file or a link is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// Another user owns it.
    #[error(
        "the user {owner} owns it, and this process runs as the user {user}: run it as that user, or `chown` it if you \
         trust its content, or choose another directory"
    )]
    Owner {
        /// The id of the owner.
        owner: u32,
        /// The id of the process's user.
        user: u32,
    },
    /// It is a symbolic link of another user, which could lead anywhere later.
    #[error(
        "it is a symbolic link of the user {owner}, and this process runs as the user {user}: name the directory itself, or \
         let this user or root make the link"
    )]
    Link {
        /// The id of the link's owner.
        owner: u32,
        /// The id of the process's user.
        user: u32,
    },
    /// It is a symbolic link in a store.
    #[error("it is a symbolic link, which no store has: put its target there, or remove it if it is not yours")]
    LinkInside,
    /// It is a file with several names, at least one of them elsewhere.
    #[error("it has {names} names (hard links): put a copy there, or remove it if it is not yours")]
    HardLinks {
        /// The number of its names.
        names: u64,
    },
    /// It is a pipe, a socket or a device.
    #[error("it is neither a file nor a directory: remove it")]
    Kind,
}
