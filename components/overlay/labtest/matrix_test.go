package labtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/labtest/overlaynode"
)

var updateDocs = flag.Bool("update-docs", false, "write the matrix into docs/explanation/overlay.md")

const (
	docPath     = "../../../docs/explanation/overlay.md"
	matrixBegin = "<!-- matrix:begin -->"
	matrixEnd   = "<!-- matrix:end -->"
)

// kind is where a node may be.
type kind struct {
	name string
	nat  *natlab.NAT // nil: a public address
}

func (k kind) symmetric() bool { return k.nat != nil && k.nat.Mapping == natlab.MapSymmetric }
func (k kind) noUDP() bool     { return k.nat != nil && k.nat.BlockUDP }
func (k kind) rejects() bool   { return k.nat != nil && k.nat.RejectSYN }

// strict: only the very address and port that was sent to gets in.
func (k kind) strict() bool {
	return k.nat != nil && (k.nat.Filtering == "" || k.nat.Filtering == natlab.FilterAddressPort)
}

var kinds = []kind{
	{"public", nil},
	{"full-cone", &natlab.FullCone},
	{"address-restricted", &natlab.AddressRestricted},
	{"port-restricted", &natlab.PortRestricted},
	{"symmetric", &natlab.Symmetric},
	{"UDP blocked", &natlab.NAT{BlockUDP: true}},
	{"rejects SYNs", &natlab.NAT{RejectSYN: true}},
}

// punchable reports whether each side can know the source address of the other's packets,
// or lets them in anyway: a symmetric NAT sends from a port that the other side has not
// learned.
func punchable(a, b kind) bool {
	return (!a.symmetric() || !b.strict()) && (!b.symmetric() || !a.strict())
}

// lucky: where both boxes answer SYNs that they do not expect with a reset, the two
// sides' must cross between the boxes. Here that way is short, so they may or may not.
func lucky(a, b kind) bool { return a.rejects() && b.rejects() }

// want is the path that two places must come to, without a gateway.
func want(a, b kind, tcp bool) overlay.PathKind {
	switch {
	case tcp && punchable(a, b):
		return overlay.PathDirectTCP
	case punchable(a, b) && !a.noUDP() && !b.noUDP():
		return overlay.PathDirectUDP
	}
	return overlay.PathRelay
}

// gatewayPair is two kinds, by their place in the list, where a gateway is too.
type gatewayPair struct {
	a, b int
	tcp  bool
}

const (
	portRestricted = 3
	symmetric      = 4
	udpBlocked     = 5
)

var gatewayPairs = []gatewayPair{
	{udpBlocked, udpBlocked, true}, {udpBlocked, udpBlocked, false}, {symmetric, udpBlocked, true},
	{symmetric, symmetric, true}, {portRestricted, portRestricted, true}, {portRestricted, portRestricted, false},
}

// want is the path where there is a gateway.
func (p gatewayPair) want() overlay.PathKind {
	if kind := want(kinds[p.a], kinds[p.b], p.tcp); kind != overlay.PathRelay {
		return kind
	}
	return overlay.PathGateway
}

// withoutTCP is every kind of path but direct TCP.
var withoutTCP = []overlay.PathKind{overlay.PathDirectUDP, overlay.PathGateway, overlay.PathRelay}

// duo is two nodes that know each other alone.
type duo struct {
	a, b *node
	want overlay.PathKind
	or   overlay.PathKind // does as well, "" for none
	name string
}

// is reports whether a path is an expected one.
func (d duo) is(p overlay.PathKind) bool { return p == d.want || d.or != "" && p == d.or }

// duo makes two nodes on two hosts.
func (w *world) duo(a, b *natlab.Host, paths []overlay.PathKind) duo {
	n := len(w.nodes)
	d := duo{a: w.place(fmt.Sprintf("db-%03d", n), a), b: w.place(fmt.Sprintf("db-%03d", n+1), b)}
	d.a.paths, d.b.paths = paths, paths
	d.a.knows, d.b.knows = []*node{d.b}, []*node{d.a}
	return d
}

// settled waits for the path that must come up, and that nothing else comes instead.
func (d duo) settled() (overlay.SessionInfo, error) {
	over := func(s overlay.SessionInfo) bool {
		return d.is(s.Path) && (s.Path == overlay.PathDirectTCP || s.Searches > 0 && !s.Searching)
	}
	s, ok := d.a.poll(d.b, 20*time.Second, over)
	if !ok || !d.is(s.Path) {
		return s, fmt.Errorf("%s: path %s, want %s: %+v", d.name, s.Path, d.want, s)
	}
	return s, nil
}

// carries echoes both ways over TCP and UDP.
func (d duo) carries() error {
	for _, way := range [][2]*node{{d.a, d.b}, {d.b, d.a}} {
		for _, r := range []overlaynode.Request{
			{Verb: overlaynode.Dial, For: 20 * time.Second, Bytes: 3000},
			{Verb: overlaynode.Datagram, For: 20 * time.Second, Bytes: 1000},
			{Verb: overlaynode.Datagram, For: 20 * time.Second, Bytes: 20000},
		} {
			r.Addr = way[0].echo(way[1])
			if _, err := way[0].Ask(r); err != nil {
				return fmt.Errorf("%s: %s to %s: %w", d.name, way[0].slot, way[1].slot, err)
			}
		}
	}
	return nil
}

// stop ends both nodes.
func (d duo) stop() {
	for _, n := range []*node{d.a, d.b} {
		n.Kill()
		n.Process = nil
	}
}

// TestMatrix tries every pair of places, with every kind of path allowed and without
// direct TCP.
func TestMatrix(t *testing.T) {
	table := matrixTable()
	if !*updateDocs {
		if got := documented(t); got != table {
			t.Errorf("%s differs from the tests; run go test -run TestMatrix -update-docs\nhave:\n%s\nwant:\n%s", docPath, got, table)
		}
	}
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	rows, columns := w.places("row"), w.places("column")
	for _, tcp := range []bool{true, false} {
		var duos []duo
		for i, a := range kinds {
			for j, b := range kinds[i:] {
				paths := withoutTCP
				if tcp {
					paths = nil
				}
				d := w.duo(rows[i], columns[i+j], paths)
				d.want, d.name = want(a, b, tcp), fmt.Sprintf("%s and %s, tcp %v", a.name, b.name, tcp)
				if lucky(a, b) {
					d.or = overlay.PathDirectUDP
				}
				duos = append(duos, d)
			}
		}
		w.try(duos)
	}
	// With a gateway no pair needs a relay; the better paths are found as before.
	w.gatewayUp()
	var duos []duo
	for _, p := range gatewayPairs {
		paths := withoutTCP
		if p.tcp {
			paths = nil
		}
		d := w.duo(rows[p.a], columns[p.b], paths)
		d.want, d.name = p.want(), fmt.Sprintf("%s and %s behind a gateway, tcp %v", kinds[p.a].name, kinds[p.b].name, p.tcp)
		duos = append(duos, d)
	}
	w.try(duos)
	t.Log("\n" + table)
	if *updateDocs && !t.Failed() {
		document(t, table)
	}
}

// places puts a host of each kind into the lab.
func (w *world) places(name string) []*natlab.Host {
	w.t.Helper()
	var hosts []*natlab.Host
	for i, k := range kinds {
		host, err := w.at(fmt.Sprintf("%s-%d", name, i), k, natlab.Link{})
		if err != nil {
			w.t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// at puts one host into the lab.
func (w *world) at(name string, k kind, link natlab.Link) (*natlab.Host, error) {
	if k.nat == nil {
		return w.lab.Public(name)
	}
	return w.lab.Behind(name, *k.nat, link)
}

// try runs pairs in parallel and reports each pair without its expected path.
func (w *world) try(duos []duo) {
	w.t.Helper()
	for _, d := range duos {
		d.a.run()
		d.b.run()
	}
	for _, d := range duos {
		_, err := d.settled()
		if err == nil {
			err = d.carries()
		}
		if err != nil {
			w.t.Error(err)
			w.tail(d.a.Log())
			w.tail(d.b.Log())
		}
		d.stop()
	}
}

// matrixTable is the expected result.
func matrixTable() string {
	var b strings.Builder
	b.WriteString("|  |")
	for _, k := range kinds {
		fmt.Fprintf(&b, " %s |", k.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(kinds)) + "\n")
	for _, row := range kinds {
		fmt.Fprintf(&b, "| **%s** |", row.name)
		for _, column := range kinds {
			note := ""
			if lucky(row, column) {
				note = " (when SYNs cross)"
			}
			fmt.Fprintf(&b, " %s%s / %s |", want(row, column, true), note, want(row, column, false))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n| with a gateway |  |\n|---|---|\n")
	for _, p := range gatewayPairs {
		if p.tcp {
			q := gatewayPair{p.a, p.b, false}
			fmt.Fprintf(&b, "| %s and %s | %s / %s |\n", kinds[p.a].name, kinds[p.b].name, p.want(), q.want())
		}
	}
	return b.String()
}

// documented is the table that the document has.
func documented(t *testing.T) string {
	t.Helper()
	before, rest, ok := strings.Cut(document0(t), matrixBegin+"\n")
	table, _, closed := strings.Cut(rest, matrixEnd)
	if !ok || !closed {
		t.Fatalf("%s has no markers behind %d bytes", docPath, len(before))
	}
	return table
}

func document0(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func document(t *testing.T, table string) {
	t.Helper()
	before, rest, _ := strings.Cut(document0(t), matrixBegin+"\n")
	_, after, _ := strings.Cut(rest, matrixEnd)
	if err := os.WriteFile(docPath, []byte(before+matrixBegin+"\n"+table+matrixEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHairpin has two nodes behind one box meet by its outside, where it lets them,
// by its inside, where that is open, and by the relay else.
func TestHairpin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	var duos []duo
	for _, c := range []struct {
		name     string
		nat      natlab.NAT
		tcp, udp overlay.PathKind
	}{
		{"hairpin", natlab.NAT{Hairpin: true}, overlay.PathDirectTCP, overlay.PathDirectUDP},
		{"lan", natlab.NAT{LAN: true}, overlay.PathDirectTCP, overlay.PathDirectUDP},
		{"neither", natlab.NAT{}, overlay.PathRelay, overlay.PathRelay},
	} {
		first, err := w.lab.Behind(c.name+"-1", c.nat, natlab.Link{})
		w.must(err)
		second, err := w.lab.Behind(c.name+"-2", natlab.NAT{Box: c.name + "-1"}, natlab.Link{})
		w.must(err)
		tcp, udp := w.duo(first, second, nil), w.duo(first, second, withoutTCP)
		tcp.want, tcp.name = c.tcp, c.name
		udp.want, udp.name = c.udp, c.name+" without direct TCP"
		duos = append(duos, tcp, udp)
	}
	w.try(duos)
}

// TestSmallMTU has one side on a way that carries less, and says so as routers do.
func TestSmallMTU(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rendezvousAt("rendezvous", natlab.Link{})
	wide, err := w.lab.Behind("wide", natlab.PortRestricted, natlab.Link{})
	w.must(err)
	for _, mtu := range []int{1400, 1280} {
		narrow, err := w.lab.Behind(fmt.Sprintf("narrow-%d", mtu), natlab.PortRestricted, natlab.Link{MTU: mtu})
		w.must(err)
		for _, paths := range [][]overlay.PathKind{nil, withoutTCP} {
			d := w.duo(wide, narrow, paths)
			kind := overlay.PathDirectTCP
			if paths != nil {
				kind = overlay.PathDirectUDP
			}
			w.both(d.a, d.b, kind)
			if err := d.carries(); err != nil {
				t.Errorf("MTU %d, %s: %v", mtu, kind, err)
			}
			there, back := d.a.bulk(d.b, time.Second), d.b.bulk(d.a, time.Second)
			t.Logf("MTU %d, %s: %.0f Mbps there, %.0f back", mtu, kind, mbps(there), mbps(back))
			d.stop()
		}
	}
}
