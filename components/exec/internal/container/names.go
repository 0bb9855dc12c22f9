package container

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// The names of Peers and routes are in the container's own hosts file. Programs read it at any
// time, in pieces of their own size. No rename can replace the file, because it is a mount, and a
// read is not atomic against a concurrent write. So content that a reader could miss is never
// moved, cut off or overwritten. Each name is a line of its own with a mark at its end,
//
//	127.10.0.1 postgres-master # cadre
//
// First it is appended as a comment ("#27.10.0.1 ..."), of which a reader may see any part. Its
// first byte then switches it on or off, and no reader can see half a byte. Other lines stay
// unchanged and in place. A removed name stays as a comment and is reused: addresses are permanent,
// so the file grows with new names and not with each change.

const (
	mark = " # cadre"
	// first is the byte that all addresses of the overlay begin with: they are in 127.0.0.0/8.
	first, gone = '1', '#'
)

// entry is one address and one name.
type entry struct{ address, name string }

func (e entry) line() string { return e.address + " " + e.name }

// entriesOf parses the agent's file. A line outside the overlay has no place in a container:
// localhost is each container's own.
func entriesOf(text string) []entry {
	var out []entry
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] == "localhost" || !ofOverlay(fields[0]) {
			continue
		}
		out = append(out, entry{fields[0], fields[1]})
	}
	return out
}

func ofOverlay(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Is4() && a.IsLoopback()
}

// record is a line of ours in a hosts file.
type record struct {
	entry
	// at is where its first byte is.
	at    int64
	alive bool
}

// recordsOf finds our lines; an incomplete line is a comment without an owner.
func recordsOf(hosts string) []record {
	var out []record
	at := int64(0)
	for line := range strings.Lines(hosts) {
		body, ours := strings.CutSuffix(line, mark+"\n")
		if ours && body != "" && (body[0] == first || body[0] == gone) {
			address, name, _ := strings.Cut(string(first)+body[1:], " ")
			if ofOverlay(address) && name != "" {
				out = append(out, record{entry{address, name}, at, body[0] == first})
			}
		}
		at += int64(len(line))
	}
	return out
}

// change makes a hosts file contain the wanted names.
type change struct {
	// add is appended first. Then the file is read again.
	add string
	// come and leave are positions of first bytes. All of come are written before any of leave.
	come, leave []int64
}

// changeOf compares a hosts file with its wanted content.
func changeOf(hosts string, want []entry) change {
	wanted := map[entry]bool{}
	for _, w := range want {
		wanted[w] = true
	}
	var out change
	alive, behind := map[entry]bool{}, map[string]int64{} // the last living line of each name
	sleeping := map[entry][]int64{}
	for _, r := range recordsOf(hosts) {
		switch {
		case !r.alive:
			sleeping[r.entry] = append(sleeping[r.entry], r.at)
			continue
		case !wanted[r.entry]:
			out.leave = append(out.leave, r.at)
		}
		alive[r.entry], behind[r.name] = true, r.at
	}
	for _, w := range want {
		if alive[w] {
			continue
		}
		// A name whose address changes goes behind its removed line: a reader that continues after
		// the removed line finds the new one, whenever it read the part before.
		places := sleeping[w]
		if at := len(places) - 1; at >= 0 && places[at] >= behind[w.name] {
			out.come = append(out.come, places[at])
			continue
		}
		out.add += string(gone) + w.line()[1:] + mark + "\n"
	}
	if out.add != "" && hosts != "" && !strings.HasSuffix(hosts, "\n") {
		out.add = "\n" + out.add // a foreign last line, or our line that a full disk cut off
	}
	return out
}

// write makes the hosts file at path contain the wanted names, in place. A process that rewrites
// the whole file at the same moment wins; container engines do so only before a start.
func write(path string, want []entry) error {
	hosts, err := readFile(path)
	if err != nil {
		return err
	}
	c := changeOf(hosts, want)
	if c.add != "" {
		if err := put(path, os.O_APPEND, func(f *os.File) error { _, err := f.WriteString(c.add); return err }); err != nil {
			return err
		}
		// Another process may have appended, too: read again for the present positions.
		if hosts, err = readFile(path); err != nil {
			return err
		}
		if c = changeOf(hosts, want); c.add != "" {
			return fmt.Errorf("%s is being written by another process", path)
		}
	}
	if len(c.come) == 0 && len(c.leave) == 0 {
		return nil
	}
	return put(path, 0, func(f *os.File) error {
		for _, at := range c.come {
			if _, err := f.WriteAt([]byte{first}, at); err != nil {
				return err
			}
		}
		for _, at := range c.leave {
			if _, err := f.WriteAt([]byte{gone}, at); err != nil {
				return err
			}
		}
		return nil
	})
}

// put opens the file that is there, and makes none.
func put(path string, flag int, do func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}
