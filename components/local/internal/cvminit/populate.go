package cvminit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"cadre.dev/local/internal/rootfs"
)

// populate fills a new volume like a container engine, for a service with an image: the owner, mode
// and files of the image's own directory at target. The volume belongs to root where the image has
// no such directory.
func populate(volume, image, target string) error {
	from, err := os.OpenRoot(image)
	if err != nil {
		return fmt.Errorf("open the image: %w", err)
	}
	defer from.Close()
	at, err := rootfs.Resolve(from, target)
	if err != nil {
		return err
	}
	info, err := from.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the image's %s: %w", target, err)
	}
	to, err := os.OpenRoot(volume)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer to.Close()
	c := copier{from: from, to: to, linked: map[inode]string{}}
	if err := c.tree(at, "."); err != nil {
		return fmt.Errorf("copy the image's %s: %w", target, err)
	}
	return nil
}

// copier copies from an image to a volume.
type copier struct {
	from, to *os.Root
	// linked are the files of several names that are in the volume, and where: each is
	// copied once, or an image's one file could fill the disk under as many names as it likes.
	linked map[inode]string
}

type inode struct{ device, number uint64 }

// tree copies the content of the directory src, and its owner and mode.
func (c *copier) tree(src, dst string) error {
	info, err := c.from.Lstat(src)
	if err != nil {
		return err
	}
	d, err := c.from.Open(src)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		s, t := path.Join(src, e.Name()), path.Join(dst, e.Name())
		switch {
		case e.IsDir():
			if err := c.to.Mkdir(t, 0o700); err != nil {
				return err
			}
			err = c.tree(s, t)
		case e.Type().IsRegular():
			err = c.file(s, t)
		case e.Type()&fs.ModeSymlink != 0:
			err = copyLink(c.from, s, c.to, t)
		}
		if err != nil {
			return err
		}
	}
	return copyOwner(c.to, dst, info)
}

func (c *copier) file(src, dst string) error {
	in, err := c.from.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, ok := c.linked[id]; ok {
			return c.to.Link(first, dst)
		}
		c.linked[id] = dst
	}
	out, err := c.to.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return copyOwner(c.to, dst, info)
}

func copyLink(from *os.Root, src string, to *os.Root, dst string) error {
	target, err := from.Readlink(src)
	if err != nil {
		return err
	}
	info, err := from.Lstat(src)
	if err != nil {
		return err
	}
	if err := to.Symlink(target, dst); err != nil {
		return err
	}
	uid, gid := ownerOf(info)
	return to.Lchown(dst, uid, gid)
}

func copyOwner(to *os.Root, dst string, info fs.FileInfo) error {
	uid, gid := ownerOf(info)
	if err := to.Lchown(dst, uid, gid); err != nil {
		return err
	}
	return to.Chmod(dst, info.Mode().Perm()|info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return 0, 0
}
