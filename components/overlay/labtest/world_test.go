package labtest

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cadre.dev/lab/natlab"
	"cadre.dev/overlay"
	"cadre.dev/overlay/internal/identity/identitytest"
	"cadre.dev/overlay/labtest/overlaynode"
)

func TestMain(m *testing.M) {
	overlaynode.Child()
	atOnce("4")
	goleak.VerifyTestMain(m)
}

// atOnce has so many scenarios run at once, unless -parallel names another number: most of the
// time they wait, and Go's own choice is one for each processor.
func atOnce(scenarios string) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", scenarios); err != nil {
		panic(err)
	}
}

const (
	clusterName = "lab"
	echoPort    = 7000
	sinkPort    = 7001
	// closedPort is offered by peers that do not accept it.
	closedPort = 7002
	stallPort  = 7003
	// sessionPort is where the first node listens; others follow.
	sessionPort = 7443
)

// world is one cluster in one lab. Tests that mostly wait run four at a time, each in a lab of
// its own; tests that fill the processors run alone, before them.
type world struct {
	t          *testing.T
	lab        *natlab.Lab
	dir        string
	ca         *identitytest.Authority
	rendezvous []overlay.Rendezvous
	servers    []*server
	nodes      map[string]*node
	gateway    string
}

// node is one overlay node on a host of the lab.
type node struct {
	*overlaynode.Process
	w         *world
	host      *natlab.Host
	slot      string
	listen    int
	knows     []*node // whom its map names, nil for everybody
	canaries  []uint16
	quiet     bool // logs no details
	vip       netip.Addr
	cert, key []byte
	boot      string
	paths     []overlay.PathKind
	group     string        // "db" when empty
	idle      time.Duration // Sessions on demand end after; 0 keeps them
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if err := natlab.Available(); err != nil {
		t.Skipf("skipped: no NAT lab here: %v", err)
	}
	lab, err := natlab.New(t.Context(), natlab.Config{Seed: 1, Router: router})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, lab: lab, dir: keepDir(t), nodes: map[string]*node{}}
	t.Cleanup(w.close)
	w.ca = identitytest.NewAuthority(t, clusterName)
	roots := filepath.Join(w.dir, "roots")
	if err := os.MkdirAll(roots, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(roots, clusterName+".pem"), w.ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) close() {
	for _, n := range w.nodes {
		if n.Process != nil {
			n.Kill()
			if w.t.Failed() {
				w.tail(n.Log())
			}
		}
	}
	for _, s := range w.servers {
		s.Kill()
		if w.t.Failed() {
			w.tail(s.Log())
		}
	}
	if err := w.lab.Close(); err != nil {
		w.t.Errorf("close lab: %v", err)
	}
}

func (w *world) tail(path string) {
	b, _ := os.ReadFile(path)
	w.t.Logf("%s:\n%s", filepath.Base(path), b[max(0, len(b)-12<<10):])
}

// rendezvousAt runs a server on a public host of its own.
func (w *world) rendezvousAt(name string, link natlab.Link) *server {
	w.t.Helper()
	host, err := w.lab.Public(name)
	if err == nil && link != (natlab.Link{}) {
		err = w.lab.SetLink(name, link)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	srv := &server{w: w, host: host, name: name}
	w.servers = append(w.servers, srv)
	srv.run()
	b, err := os.ReadFile(srv.ca())
	if err != nil {
		w.t.Fatal(err)
	}
	w.rendezvous = append(w.rendezvous, overlay.Rendezvous{URL: fmt.Sprintf("https://%s:8443", host.Addr()), CA: b})
	return srv
}

// pair is two nodes, each behind a NAT of its own, and a rendezvous.
func (w *world) pair(a, b natlab.NAT, link natlab.Link) (*node, *node) {
	w.t.Helper()
	w.rendezvousAt("rendezvous", natlab.Link{})
	hostA, err := w.lab.Behind("host-a", a, link)
	if err != nil {
		w.t.Fatal(err)
	}
	hostB, err := w.lab.Behind("host-b", b, link)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.place("db-0", hostA), w.place("db-1", hostB)
}

// server is a rendezvous server on a host of its own.
type server struct {
	*overlaynode.Process
	w    *world
	host *natlab.Host
	name string
}

func (s *server) ca() string { return filepath.Join(s.w.dir, s.name+".ca.pem") }

// run starts the server's process, also once more.
func (s *server) run() {
	s.w.t.Helper()
	state := filepath.Join(s.w.dir, s.name+".state")
	err := os.MkdirAll(state, 0o700)
	if err == nil {
		s.Process, err = overlaynode.StartRendezvous(s.host, s.w.dir, s.name, overlaynode.Rendezvous{
			Listen: s.host.Addr().String() + ":8443", RelayIP: s.host.Addr().String(),
			Roots: filepath.Join(s.w.dir, "roots"), CAFile: s.ca(), StateDir: state,
		})
	}
	if err != nil {
		s.w.t.Fatal(err)
	}
}

// place makes a node on a host, not yet running.
func (w *world) place(slot string, host *natlab.Host) *node {
	w.t.Helper()
	i := len(w.nodes) + 1
	n := &node{w: w, host: host, slot: slot, vip: netip.AddrFrom4([4]byte{127, 50, byte(i >> 8), byte(i)}), listen: sessionPort + i - 1}
	n.renew()
	w.nodes[slot] = n
	return n
}

// renew gives the node the key of a new Boot.
func (n *node) renew() {
	t := n.w.t
	t.Helper()
	svid := n.w.ca.Issue(t, n.w.ca.ID(cmp.Or(n.group, "db"), n.slot), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(24 * time.Hour) })
	keyDER, err := x509.MarshalPKCS8PrivateKey(svid.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	n.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: svid.Certificate[0]})
	n.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	n.boot = overlay.BootID(svid.Leaf)
}

func (n *node) id() string {
	return "spiffe://" + clusterName + "/" + cmp.Or(n.group, "db") + "/" + n.slot
}

// peers is the map of everybody but n.
func (n *node) peers() []overlaynode.Peer {
	known := n.knows
	if known == nil {
		known = slices.Collect(maps.Values(n.w.nodes))
	}
	var out []overlaynode.Peer
	for _, p := range known {
		if p != n {
			out = append(out, overlaynode.Peer{
				ID: p.id(), BootID: p.boot, InstanceID: p.slot, VIP: p.vip,
				Ports: []uint16{echoPort, sinkPort, stallPort}, Refused: []uint16{closedPort},
			})
		}
	}
	return out
}

// run starts the node's process.
func (n *node) run() *node {
	n.w.t.Helper()
	p, err := overlaynode.StartNode(n.host, n.w.dir, n.slot, overlaynode.Config{
		Self: n.id(), VIP: n.vip, Cert: n.cert, Key: n.key, CA: n.w.ca.PEM, Peers: n.peers(),
		Rendezvous: n.w.rendezvous, Gateway: n.w.gateway, Paths: n.paths,
		Listen: fmt.Sprintf(":%d", n.listen), Canaries: n.canaries,
		Echo: []uint16{echoPort}, Sink: []uint16{sinkPort}, Stall: []uint16{stallPort}, Debug: !n.quiet,
		OnDemand: n.idle > 0, IdleTime: n.idle,
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.Process = p
	return n
}

func (n *node) ask(r overlaynode.Request) overlaynode.Response {
	n.w.t.Helper()
	res, err := n.Ask(r)
	if err != nil {
		n.w.t.Fatalf("%s: %v", n.slot, err)
	}
	return res
}

// echo is p's echo port as n reaches it.
func (n *node) echo(p *node) netip.AddrPort { return netip.AddrPortFrom(p.vip, echoPort) }

// session describes n's Link to p.
func (n *node) session(p *node) overlay.SessionInfo {
	n.w.t.Helper()
	s, ok := n.find(p)
	if !ok {
		n.w.t.Fatalf("%s has no link to %s", n.slot, p.slot)
	}
	return s
}

// find is session for a node that may have started just now and have no links yet.
func (n *node) find(p *node) (overlay.SessionInfo, bool) {
	n.w.t.Helper()
	for _, s := range n.ask(overlaynode.Request{Verb: overlaynode.Sessions}).Sessions {
		if s.Peer.String() == p.id() {
			return s, true
		}
	}
	return overlay.SessionInfo{}, false
}

// await polls until ok, and fails with the last observation.
func (n *node) await(p *node, what string, limit time.Duration, ok func(overlay.SessionInfo) bool) overlay.SessionInfo {
	n.w.t.Helper()
	s, done := n.poll(p, limit, ok)
	if !done {
		n.w.t.Fatalf("%s to %s: %s did not come about: %+v", n.slot, p.slot, what, s)
	}
	return s
}

// poll polls until ok or the limit, and returns the last observation.
func (n *node) poll(p *node, limit time.Duration, ok func(overlay.SessionInfo) bool) (overlay.SessionInfo, bool) {
	n.w.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, there := n.find(p)
		if there && ok(s) {
			return s, true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return s, false
		}
	}
}

// awaitPath waits until n uses a kind of path to p.
func (n *node) awaitPath(p *node, kind overlay.PathKind) overlay.SessionInfo {
	n.w.t.Helper()
	return n.await(p, string(kind), 20*time.Second, func(s overlay.SessionInfo) bool { return s.Path == kind })
}

// keepDir is a folder for configurations and logs: LABTEST_DIR, to read them afterwards, or a
// temporary folder of the test.
func keepDir(t *testing.T) string {
	t.Helper()
	base := os.Getenv("LABTEST_DIR")
	if base == "" {
		return t.TempDir()
	}
	dir := filepath.Join(base, t.Name())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// text is the node's log.
func (n *node) text() string {
	b, _ := os.ReadFile(n.Log())
	return string(b)
}

// begin asks in the background; the returned function waits for the answer.
func (n *node) begin(r overlaynode.Request) func() overlaynode.Response {
	type answer struct {
		res overlaynode.Response
		err error
	}
	done := make(chan answer, 1)
	go func() {
		res, err := n.Ask(r)
		done <- answer{res, err}
	}()
	return func() overlaynode.Response {
		n.w.t.Helper()
		a := <-done
		if a.err != nil {
			n.w.t.Fatalf("%s: %v", n.slot, a.err)
		}
		return a.res
	}
}

// both runs two nodes and waits for their path.
func (w *world) both(a, b *node, kind overlay.PathKind) {
	w.t.Helper()
	a.run()
	b.run()
	a.awaitPath(b, kind)
	b.awaitPath(a, kind)
}

// pause lets a fault work for a while.
func (w *world) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// must fails the test for a fault that could not be made.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
