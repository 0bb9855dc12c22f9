package tree

import (
	"archive/tar"
	"fmt"
	"io"
	"time"
)

// WriteTar writes the layer: sorted, every time set to at, no names of owners. Files that share
// their bytes in a package are hard links again.
func (t *Tree) WriteTar(w io.Writer, at time.Time) error {
	out := tar.NewWriter(w)
	first := map[linked]string{}
	for _, e := range t.Entries() {
		h := &tar.Header{Name: e.Path, Mode: e.Mode, Uid: e.UID, Gid: e.GID, ModTime: at.UTC().Truncate(time.Second)}
		switch e.Kind {
		case Directory:
			h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
		case Symlink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
		case File:
			h.Typeflag, h.Size = tar.TypeReg, e.Body.Size
			key := linked{e.Body.File, e.Body.Offset, e.Mode, e.UID, e.GID}
			if to, ok := first[key]; ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
			} else if e.Body.File != "" && e.Body.Size > 0 {
				first[key] = e.Path
			}
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("write %s: %w", e.Path, err)
		}
		if h.Size == 0 {
			continue
		}
		if err := copyBody(out, e.Body); err != nil {
			return fmt.Errorf("write %s: %w", e.Path, err)
		}
	}
	return out.Close()
}

// linked identifies hard links: the same bytes of the same package, with the same owner.
type linked struct {
	file     string
	offset   int64
	mode     int64
	uid, gid int
}

func copyBody(w io.Writer, b Body) error {
	r, err := b.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	n, err := io.Copy(w, r)
	if err == nil && n != b.Size {
		err = fmt.Errorf("%d bytes, not %d: the file changed meanwhile", n, b.Size)
	}
	return err
}
