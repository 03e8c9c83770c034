/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a file is still the one that was mounted depends on the file system that it is on.  This is the
 * complete rule:
 *
 *   | file system            | the same file has the same …                    | it is looked at …
 *   | local                  | device, inode, size, mtime, ctime               | by its descriptor, after each read
 *   | across a network       | inode, size, mtime, ctime                       | by its path too
 *   | in user space, unknown | size, mtime, ctime; and where times cannot      | by its path too
 *   |                        | tell, the bytes that were read of it before     |
 *
 * An inode number proves only where it lasts.  FUSE file systems make them up: sshfs, mergerfs, unionfs-fuse and s3fs
 * give a file that the kernel forgot another one.  So do CIFS (noserverino), 9p and AFS; those of NFS, Lustre, Ceph,
 * GPFS and BeeGFS are the server's.  A device number is that of one mount: mounted anew, the same file has another,
 * except on a local disk.  What does not last is 0 in an identity (`dev`, `ino`; of a directory in user space the size and
 * the times as well, which some make up), here and nowhere else, so that whoever compares identities, as bytes, as
 * hashes or field by field, compares what lasts.
 *
 * Times cannot tell of a change within the tick of the clock in which the file was first looked at, as git has it
 * of its index ("racily clean").  A local file is looked at until that tick is over.  Elsewhere it may last two seconds,
 * and the server's clock is another one: there the first bytes that were read (the header, the directory of a zip file) are
 * read again once the tick is over, and again when the file is opened again where its times are no times (1970) (far.h).
 *
 * Attributes of an open file may be old for as long as nobody looks at the path (rclone), which is why the path is
 * looked at, at most once a second.  What the file system itself hides from that look cannot be seen:
 * docs/sources.md has the windows. */
#ifndef SOURCE_PLACE_H
#define SOURCE_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include <zf/source/source.h>

struct place {
    uint64_t type; /* f_type of statfs(2); 0: it could not be asked */
    bool far;      /* not local: others change files without the kernel's knowing at once */
    bool user;     /* in user space, or unknown */
    bool lasting;  /* inode numbers last */
};

/* Where the descriptor (O_PATH does) is; asks the file system. */
struct place place_of(int fd);

/* Identity of a file of that place. */
struct zf_identity place_identity(const struct place *p, const struct stat *st);

/* *now reduced to what lasts of `was`, that it is to be compared with. */
void place_reduce(const struct zf_identity *was, struct zf_identity *now);

/* Is it a file of a place that is not local? */
static inline bool place_is_far(const struct zf_identity *id)
{
    return id->dev == 0;
}

/* … of one in user space, or of another whose inode numbers do not last? */
static inline bool place_is_user(const struct zf_identity *id)
{
    return id->dev == 0 && id->ino == 0;
}

/* The clock that stamps files moves in ticks of some milliseconds. */
struct timespec place_clock(void);
/* A write within the clock tick of ctime leaves no trace: may a file have been looked
 * at in that tick, when the clock said `began` before? */
bool place_fresh(struct timespec ctime, struct timespec began);

/* May a file that was looked at, when the clock said `when`, change once more and carry the same times?  Linux
 * dates files by a clock of 100 ticks a second at least; a file system that keeps whole seconds, or every other one
 * (FAT), has no part of a second to show.  A server's clock may be ahead. */
bool place_racy(const struct zf_identity *id, struct timespec when);

/* Times that say nothing at all: 1970, as bucket mounts have it, or more than a day ahead. */
bool place_timeless(const struct zf_identity *id, struct timespec when);

#endif
