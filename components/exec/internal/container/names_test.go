package container

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// says parses a hosts file as programs do: the first address of a name counts.
func says(hosts io.Reader) map[string]string {
	out := map[string]string{}
	for lines := bufio.NewScanner(hosts); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		for i, name := range fields {
			if i > 0 && out[name] == "" {
				out[name] = fields[0]
			}
		}
	}
	return out
}

// TestAHostsFileIsChangedAndNotRewritten: each step continues with the file of the previous one.
func TestAHostsFileIsChangedAndNotRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	for _, step := range []struct{ name, before, mesh, want string }{
		{
			"names come behind the lines of others", "127.0.0.1 localhost\n10.0.0.1 web-0 # by hand\n",
			"127.0.0.1 localhost\n127.50.0.1 db-0\n127.50.0.2 db-1\n",
			"127.0.0.1 localhost\n10.0.0.1 web-0 # by hand\n127.50.0.1 db-0 # cadre\n127.50.0.2 db-1 # cadre\n",
		},
		{
			"a route comes", "", "127.50.0.1 db-0\n127.50.0.2 db-1\n127.10.0.1 db-master\n",
			"127.0.0.1 localhost\n10.0.0.1 web-0 # by hand\n127.50.0.1 db-0 # cadre\n127.50.0.2 db-1 # cadre\n127.10.0.1 db-master # cadre\n",
		},
		{
			"it goes", "", "127.50.0.1 db-0\n127.50.0.2 db-1\n",
			"127.0.0.1 localhost\n10.0.0.1 web-0 # by hand\n127.50.0.1 db-0 # cadre\n127.50.0.2 db-1 # cadre\n#27.10.0.1 db-master # cadre\n",
		},
		{
			"it is back, and takes no more room", "", "127.50.0.1 db-0\n127.10.0.1 db-master\n",
			"127.0.0.1 localhost\n10.0.0.1 web-0 # by hand\n127.50.0.1 db-0 # cadre\n#27.50.0.2 db-1 # cadre\n127.10.0.1 db-master # cadre\n",
		},
		{
			"an address changes behind the old one", "127.50.0.1 db-0 # cadre\n", "127.50.0.9 db-0\n",
			"#27.50.0.1 db-0 # cadre\n127.50.0.9 db-0 # cadre\n",
		},
		{
			"and back: not before the removed line", "", "127.50.0.1 db-0\n",
			"#27.50.0.1 db-0 # cadre\n#27.50.0.9 db-0 # cadre\n127.50.0.1 db-0 # cadre\n",
		},
		{
			"a last line without an end", "10.0.0.1 web-0", "127.50.0.1 db-0\n",
			"10.0.0.1 web-0\n127.50.0.1 db-0 # cadre\n",
		},
		{
			"a part of a line, of a full disk", "10.0.0.1 web-0\n#27.50.0.1 d", "127.50.0.1 db-0\n",
			"10.0.0.1 web-0\n#27.50.0.1 d\n127.50.0.1 db-0 # cadre\n",
		},
		{
			"marks of others are not ours", "10.0.0.1 a # cadre\n# cadre\n#x y # cadre\n127.0.0.1\ta # cadre\n", "",
			"10.0.0.1 a # cadre\n# cadre\n#x y # cadre\n127.0.0.1\ta # cadre\n",
		},
		{
			"only names of the overlay", "10.0.0.1 a\n", "127.0.0.1 localhost\n10.0.0.2 b\n::1 c\n127.50.0.1\nx y\n127.50.0.1 d e\n\n# 127.50.0.1 f\n",
			"10.0.0.1 a\n",
		},
		{"an empty file", "\x00", "127.50.0.1 db-0\n", "127.50.0.1 db-0 # cadre\n"},
	} {
		if step.before != "" {
			if err := os.WriteFile(path, []byte(strings.Trim(step.before, "\x00")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time changes nothing
			if err := write(path, entriesOf(step.mesh)); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != step.want {
				t.Errorf("%s:\n%s\nwant\n%s%v", step.name, got, step.want, err)
			}
		}
	}
}

// TestAReaderNeverMissesANameThatStays: readers read the file in pieces of many sizes while names
// are added, removed and change their address. In no pass is a name missing that was there before
// and after, and no name has an address that it never had.
func TestAReaderNeverMissesANameThatStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	others := "127.0.0.1 localhost\n" + strings.Repeat("# of others, so that the file has more than one page\n", 100) + "10.0.0.1 outside\n"
	if err := os.WriteFile(path, []byte(others), 0o600); err != nil {
		t.Fatal(err)
	}
	const rounds = 200
	want := func(round int) []entry {
		out := []entry{{"127.50.0.1", "stays"}, {fmt.Sprintf("127.50.1.%d", round%3), "moves"}}
		for i := range 20 {
			if (round+i)%3 == 0 {
				out = append(out, entry{fmt.Sprintf("127.10.0.%d", i), fmt.Sprintf("route-%d", i)})
			}
		}
		return out
	}
	if err := write(path, want(0)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, size := range []int{1, 7, 64, 1032, 4096} {
		readers.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true // one more pass, so that each has one
				default:
				}
				f, err := os.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				got := says(&pieces{f, size})
				_ = f.Close()
				for name, address := range got {
					number, route := strings.CutPrefix(name, "route-")
					if route && address != "127.10.0."+number {
						t.Errorf("pieces of %d: %s is %s", size, name, address)
					}
				}
				if got["localhost"] != "127.0.0.1" || got["outside"] != "10.0.0.1" || got["stays"] != "127.50.0.1" || !strings.HasPrefix(got["moves"], "127.50.1.") {
					t.Errorf("pieces of %d: localhost %q, outside %q, stays %q, moves %q", size, got["localhost"], got["outside"], got["stays"], got["moves"])
					return
				}
			}
		})
	}
	for round := range rounds {
		if err := write(path, want(round)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
	got, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(got), others) {
		t.Errorf("lines of others: %.100q, %v", got, err)
	}
	final := says(strings.NewReader(string(got)))
	for _, e := range want(rounds - 1) {
		if final[e.name] != e.address {
			t.Errorf("at the end %s is %q, want %s", e.name, final[e.name], e.address)
		}
	}
}

// pieces reads at most size bytes at once.
type pieces struct {
	io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.Reader.Read(b[:min(len(b), p.size)]) }

func BenchmarkWrite(b *testing.B) {
	path := filepath.Join(b.TempDir(), "hosts")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	var all []entry
	for i := range 1000 {
		all = append(all, entry{fmt.Sprintf("127.50.%d.%d", i/250, i%250), fmt.Sprintf("group-%d", i)})
	}
	for i := range b.N {
		if err := write(path, all[:len(all)-i%2]); err != nil {
			b.Fatal(err)
		}
	}
}
