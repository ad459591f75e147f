"""What became of the files that had a watched path before: they are found, read to their end, or told to be lost."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.collect.content import Content, MovedError, fingerprint
from kafka2011.collect.names import without_compression
from kafka2011.collect.positions import CountedBytes, FilePosition
from kafka2011.collect.rotation import Listing, find_former, has_time_of, holds, is_as_seen, still_holds

if TYPE_CHECKING:
    from kafka2011.collect.counts import CollectCounts
    from kafka2011.collect.followed_files import FollowedFiles
    from kafka2011.collect.positions import FileKey, Positions
    from kafka2011.collect.rotation import Former, FoundFile
    from kafka2011.collect.tail import FileTail

logger = logging.getLogger(__name__)

_MANY = 200
"""If more files have names that differ in numbers, only compressed ones are compared: each may be an instance's."""
_MOVING = 20
"""How many paths may wait for one another while their files are taken elsewhere; the next look does the others."""


class FormerFiles:
    """Takes what is known of files to where their content is by now. Directories are read once in a look at all."""

    def __init__(self, followed: FollowedFiles, positions: Positions, counts: CollectCounts) -> None:
        self._followed = followed
        self._positions = positions
        self._counts = counts
        self._listings: dict[Path, Listing] = {}
        self._looks = 0
        self._moving: list[str] = []  # paths whose files are taken elsewhere, each where files of the next one were

    def begin_look(self) -> None:
        """Forget what directories held at the last look."""
        self._listings.clear()
        self._looks += 1

    def find(self, path: str, current: FileKey | None, replaced: FileKey | None = None) -> None:
        """Have read what was rotated away and is not read yet, and tell of what cannot be read any more.

        `current` is the file that has the path now; `replaced` one that has other content now. Raises OSError.
        """
        known = self._positions.of(path)
        family = self._followed.family(path)
        is_known = current is not None and known.keys() == {current} and replaced is None
        if not known or (is_known and all(_is_sure(saved, family.get(saved.key)) for saved in known.values())):
            return
        latest_ns = max(saved.modified_ns for saved in known.values())
        former = self._look_around(path, family, replaced)
        elsewhere = {*former.gone, *(key for key, _ in former.read), *(unread.continues for unread in former.unread)}
        if current is not None and current in elsewhere and known[current].modified_ns >= latest_ns:
            self._counts.add(truncations=1)  # unless it was rotated away long ago, and a new file has its inode
        for file in former.there:
            if file.key in family and not family[file.key].content.is_held:
                family[file.key].content.path = file.path
        self._move(path, current, former, family, latest_ns)
        for file, why in former.broken:
            self._broken(path, file, why)
        if self._looks == 1 and current not in known:
            _warn_of_others(path, former)
        for unread in former.unread:
            if unread.file.key != current:
                tail = family.get(unread.continues) if unread.continues is not None else None
                self._followed.go_on(path, unread, tail)

    def find_known(self, content: Content, watched: str) -> FilePosition | None:
        """Return the position of a file that nobody knows, if its content is known: renamed, copied or compressed.

        A file that is gone goes on in this one. Of one that is there, this one is a copy, and all of it counts as read.
        Raises OSError.
        """
        relatives = self._positions.relatives(watched)
        if content.counted is CountedBytes.FILE and len(relatives) > _MANY:
            return None
        status = content.status()
        for saved in relatives:
            tail = self._followed.tail_of(saved.key)
            known = saved if tail is None else tail.known
            if saved.key == content.key or known.size_bytes > status.size_bytes:
                continue
            if self._is_there(saved, tail):
                if self._is_copy(content, known, tail):
                    return self._copied(content, watched, known)
            elif known.position and holds(content, status.size_bytes, known):
                logger.info("%s has what %s had, and is read on", content.path, saved.watched)
                is_packed = content.counted is CountedBytes.UNPACKED
                self._positions.move(saved, content.key, is_packed=is_packed)
                return saved
        return None

    def _is_there(self, saved: FilePosition, tail: FileTail | None) -> bool:
        """Whether a known file is still where it was, or anywhere in its directory, as far as its inode says that."""
        if tail is not None:
            return True
        directory = Path(saved.watched).resolve().parent
        if directory not in self._listings:
            self._listings[directory] = Listing(directory)
        listing = self._listings[directory]
        return any(
            file.key == saved.key and (is_as_seen(file, saved) or still_holds(file, saved, self._followed.open_files))
            for file in listing.look(listing.with_inodes([saved.key]))
        )

    @staticmethod
    def _is_copy(content: Content, known: FilePosition, tail: FileTail | None) -> bool:
        """Whether a file is a copy of a known one: as large, with the same bytes, and with its time or its name."""
        size_bytes, modified_ns, _ = content.status()
        if size_bytes != known.size_bytes or not size_bytes:
            return False
        path = known.watched if tail is None else tail.path
        has_name = content.path != path and without_compression(content.path) == without_compression(path)
        if not (has_name or has_time_of(modified_ns, known)):
            return False
        if tail is not None:
            return fingerprint(content, size_bytes) == fingerprint(tail.content, size_bytes)
        return known.position == size_bytes and holds(content, size_bytes, known)

    def _copied(self, content: Content, watched: str, known: FilePosition) -> FilePosition:
        """Note that a file needs no reading."""
        logger.info("%s has what %s has, and is not read", content.path, known.watched)
        size_bytes, modified_ns, _ = content.status()
        read = fingerprint(content, size_bytes) or ""
        copied = FilePosition(content.key, watched, size_bytes, read, size_bytes, size_bytes, modified_ns)
        return self._positions.add(copied)

    def _look_around(self, path: str, family: dict[FileKey, FileTail], replaced: FileKey | None) -> Former:
        """Look for all files that had a path. Raises OSError."""
        known = self._positions.of(path)
        since_ns = max(saved.modified_ns for saved in known.values())
        for key, tail in family.items():
            if tail.content.is_held and key != replaced:
                status = tail.content.status()
                if not tail.is_as_seen(status.size_bytes, status.modified_ns):
                    tail.see(status)
            known[key] = tail.known
        held = {key for key, tail in family.items() if tail.content.is_held and key != replaced}
        directory = Path(path).resolve().parent
        find = partial(find_former, path, known, since_ns, self._followed.open_files, held=held, replaced=replaced)
        find = partial(find, others_known=self._positions.files)
        if directory in self._listings:
            former = find(self._listings[directory])
            if not former.gone:
                return former
            former.close()  # they may have another name since
        self._listings[directory] = Listing(directory)
        return find(self._listings[directory])

    def _move(
        self, path: str, current: FileKey | None, former: Former, family: dict[FileKey, FileTail], latest_ns: int
    ) -> None:
        """Take known files to where their content is now, and leave those that are gone."""
        moves = [
            *former.read,
            *((unread.continues, unread.file) for unread in former.unread if unread.continues is not None),
        ]
        # All are taken out before any gets its new key, which may be the former one of another, of another path too.
        taken = [self._take_out(key) for key, _ in moves]
        for key in former.gone:
            self._gone(path, key, current, family.get(key), latest_ns)
        try:
            for _, file in moves:
                self._make_room(path, file)
        except BaseException:
            for saved, tail in taken:
                self._positions.add(saved)
                self._followed.put_back(tail)
            raise
        for (saved, _), (_, file) in zip(taken, moves, strict=True):
            self._positions.move(saved, file.key, is_packed=file.is_packed)
        for key, file in former.read:
            logger.info("%s was %s, and was read", file.path, path)
            if key in family:
                self._followed.end(family[key], key)

    def _take_out(self, key: FileKey) -> tuple[FilePosition, FileTail | None]:
        """Let a file go that is gone, while what it held is elsewhere."""
        saved = self._positions.files[key]
        self._positions.remove(key)
        return saved, self._followed.take_out(key)

    def _make_room(self, path: str, file: FoundFile) -> None:
        """Take the file of another path that is gone, and had this inode, to where its content is. Raises OSError."""
        other = self._positions.files.get(file.key)
        if other is None or other.watched == path:
            return
        if other.watched in self._moving or len(self._moving) == _MOVING:
            raise MovedError(file.path)
        self._moving.append(path)
        try:
            self.find(other.watched, None, file.key)
        finally:
            self._moving.pop()

    def _broken(self, path: str, file: FoundFile, why: str) -> None:
        """Tell of a compressed file that cannot be read, once."""
        self._counts.add(losses=1)
        logger.error("%s was %s, but was compressed before it was read: it is lost (%s)", file.path, path, why)
        known = FilePosition(file.key, path, file.size_bytes, size_bytes=file.size_bytes, modified_ns=file.modified_ns)
        self._positions.add(known)

    def _gone(self, path: str, key: FileKey, current: FileKey | None, tail: FileTail | None, latest_ns: int) -> None:
        """Tell what is lost with a file that is nowhere any more, or has other content.

        It may have grown since the last look only if it was the latest that had the path, and was not kept open.
        """
        saved = self._positions.files[key]
        self._positions.remove(key)
        position = saved.position if tail is None else tail.position
        lost_bytes = max(saved.size_bytes - position, 0)
        if lost_bytes:
            self._counts.add(losses=1, bytes_lost=lost_bytes)
        was_latest = saved.modified_ns >= latest_ns
        if key == current and (was_latest or lost_bytes):
            where = f"{path} was truncated, or is another file, after {position} bytes of it were read"
            if lost_bytes:
                logger.error("%s: the next %d bytes, and whatever followed them, are lost", where, lost_bytes)
            else:
                logger.warning("%s: what was written between then and the truncation is lost, if anything was", where)
        elif lost_bytes:
            logger.error(
                "a file that was %s is no longer in its directory: its %d bytes from %d on, and whatever followed"
                " them, are lost",
                *(path, lost_bytes, position),
            )
        elif current is not None and was_latest and (tail is None or not tail.content.is_held):
            logger.warning(
                "a file that was %s is no longer in its directory, and %d bytes of it were read: what was written after"
                " them is lost, if anything was",
                *(path, position),
            )
        if tail is not None:
            self._followed.end(tail, key)


def _warn_of_others(path: str, former: Former) -> None:
    """Warn of newer files that may belong to a link's log, but whose names do not fit those of its targets."""
    for file in former.beside:
        logger.warning(
            "%s was written after what was last read of %s, and is not read: %d bytes. If it belongs to the same log,"
            " name it, too",
            *(file.path, path, file.size_bytes),
        )


def _is_sure(saved: FilePosition, tail: FileTail | None) -> bool:
    """Whether more than its inode tells that a file is the same: another may have that, and others come between."""
    return saved.position > 0 or (tail is not None and tail.content.is_held)
