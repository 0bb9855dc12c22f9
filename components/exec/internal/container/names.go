package container

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// The names of Peers and routes stand in the container's own hosts file, which programs read
// at any time, in pieces of their own size, and which cannot be renamed over: it is a mount.
// A read is not atomic against a write beside it. So nothing that a reader could miss is ever
// moved, cut off or written over. Each name is a line of its own with a mark at its end,
//
//	127.10.0.1 postgres-master # cadre
//
// is appended as a comment ("#27.10.0.1 ..."), of which a reader may see any part, and is
// there or gone by its first byte, which no reader can see half. Lines of others stay as and
// where they are. What is gone stays as a comment and is used again: addresses are given for
// ever, so the file grows with what is new and not with what comes and goes.

const (
	mark = " # cadre"
	// first is the byte that all addresses of the overlay begin with: they are in 127.0.0.0/8.
	first, gone = '1', '#'
)

// entry is one address and one name.
type entry struct{ address, name string }

func (e entry) line() string { return e.address + " " + e.name }

// entriesOf reads what the agent wrote. A line that is not of the overlay has no place in a
// container: localhost is everybody's own.
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

// recordsOf finds our lines; one that is not whole is a comment of nobody.
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

// change is what makes a hosts file say what is wanted.
type change struct {
	// add is appended before all else. Then the file is looked at again.
	add string
	// come and leave are places of first bytes. All come before any leaves.
	come, leave []int64
}

// changeOf compares a hosts file with what it should say.
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
		// A name whose address changes comes behind the line that goes: who reads on from a
		// line that has gone finds the new one, whenever it read what stands before.
		places := sleeping[w]
		if at := len(places) - 1; at >= 0 && places[at] >= behind[w.name] {
			out.come = append(out.come, places[at])
			continue
		}
		out.add += string(gone) + w.line()[1:] + mark + "\n"
	}
	if out.add != "" && hosts != "" && !strings.HasSuffix(hosts, "\n") {
		out.add = "\n" + out.add // somebody's last line, or ours of which a full disk took a part
	}
	return out
}

// write makes the hosts file at path say what is wanted, in place. Somebody who writes the
// whole file anew at the same moment wins; container engines do so only before a start.
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
		// Somebody else may have appended, too: places are those of the file as it is.
		if hosts, err = readFile(path); err != nil {
			return err
		}
		if c = changeOf(hosts, want); c.add != "" {
			return fmt.Errorf("%s is being written by somebody else", path)
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
