/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a file is still the one that was mounted depends on the file system that it is on.  This is the
 * complete rule:
 *
 *   | file system            | the same file has the same …                    | it is checked …
 *   | local                  | device, inode, size, mtime, ctime               | by its descriptor, after each read
 *   | across a network       | inode, size, mtime, ctime                       | by its path too
 *   | in user space, unknown | size, mtime, ctime; and where these cannot show | by its path too
 *   |                        | a change, the bytes read from it before         |
 *
 * An inode number is proof only where it is stable.  FUSE file systems make numbers up: sshfs, mergerfs, unionfs-fuse
 * and s3fs give a file another one once the kernel has dropped the inode.  So do CIFS (noserverino), 9p and AFS; those
 * of NFS, Lustre, Ceph, GPFS and BeeGFS are the server's.  A device number belongs to one mount: after a remount the
 * same file has another one, except on a local disk.  Unstable fields are 0 in an identity (`dev`, `ino`; the size and
 * times of a directory in user space, too), and this is the only place that clears them, so that every comparison of
 * identities, as bytes, hashes or field by field, compares stable fields only.
 *
 * Timestamps cannot show a change within the clock tick in which the attributes were first read, as in git's index
 * ("racily clean").  The attributes of a local file are read again until that tick is over.  Elsewhere a tick may last
 * two seconds, and the server has its own clock: there the first bytes that were read (the header, the directory of a
 * zip file) are compared once the tick is over, and after each reopening where the times are meaningless (1970)
 * (file_self.h).
 *
 * The attributes of an open file may be out of date until its path is looked up (rclone), so the path is checked, at
 * most once a second.  Changes that the file system itself hides from that check cannot be seen: docs/sources.md says
 * for how long. */
#ifndef SOURCE_PLACE_H
#define SOURCE_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include <zf/source/source.h>

struct place {
    uint64_t type; /* f_type of statfs(2); 0: statfs failed */
    bool far;      /* not local: other machines may change files without the kernel's knowledge */
    bool user;     /* in user space, or unknown */
    bool lasting;  /* inode numbers are stable */
};

/* The file system of a descriptor (O_PATH is enough); calls statfs(2). */
struct place place_of(int fd);

/* The identity of a file there, without its unstable fields. */
struct zf_identity place_identity(const struct place *p, const struct stat *st);

/* Clears the fields of *now that are unstable in `was`, before the two are compared. */
void place_reduce(const struct zf_identity *was, struct zf_identity *now);

/* Is the file on a file system that is not local? */
static inline bool place_is_far(const struct zf_identity *id)
{
    return id->dev == 0;
}

/* … on one in user space, or another whose inode numbers are not stable? */
static inline bool place_is_user(const struct zf_identity *id)
{
    return id->dev == 0 && id->ino == 0;
}

/* Now, by the coarse clock that timestamps files, in ticks of a few milliseconds. */
struct timespec place_clock(void);
/* May the attributes of a file have been read within the clock tick of its ctime, where a second
 * write leaves no trace?  began: the clock before they were read. */
bool place_fresh(struct timespec ctime, struct timespec began);

/* May a file whose attributes were read at `when` change once more and keep the same times?  Linux timestamps files by
 * a clock of at least 100 ticks a second; a file system with whole or even seconds (FAT) has no fraction to show.  A
 * server's clock may be ahead. */
bool place_racy(const struct zf_identity *id, struct timespec when);

/* Are the times meaningless: 1970, as in bucket mounts, or more than a day ahead? */
bool place_timeless(const struct zf_identity *id, struct timespec when);

#endif
