package overlaynode

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"sync"

	"cadre.dev/overlay"
	"cadre.dev/overlay/rendezvous"
)

// The environment selects the process's role.
const (
	envNode       = "MESHNODE_CONFIG"
	envRendezvous = "MESHNODE_RENDEZVOUS"
	envHostile    = "MESHNODE_HOSTILE"
)

// gatewayDomain is the domain that the gateway routes by.
const gatewayDomain = "gw.test"

// Child runs the role that the environment selects, and then does not return. Call it
// first in TestMain or main.
func Child() {
	if os.Getenv(envNode)+os.Getenv(envRendezvous)+os.Getenv(envHostile) != "" {
		probeMTU()
	}
	var err error
	switch {
	case os.Getenv(envNode) != "":
		err = runNode(os.Getenv(envNode))
	case os.Getenv(envRendezvous) != "":
		err = runRendezvous(os.Getenv(envRendezvous))
	case os.Getenv(envHostile) != "":
		err = runHostile(os.Getenv(envHostile))
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlaynode:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// probeMTU has the namespace's TCP find out when large segments vanish, as a machine
// on the internet should be set. Where it may not be set, it is as the kernel has it.
func probeMTU() { _ = os.WriteFile("/proc/sys/net/ipv4/tcp_mtu_probing", []byte("1"), 0) }

func read(path string, into any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func logger(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// untilStdinEnds gives a context that ends with the parent, and the lines it sends.
func untilStdinEnds() (context.Context, <-chan Request) {
	ctx, cancel := context.WithCancel(context.Background())
	lines := make(chan Request)
	go func() {
		defer cancel()
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			var r Request
			if err := json.Unmarshal(in.Bytes(), &r); err != nil {
				fmt.Fprintln(os.Stderr, "overlaynode: request:", err)
				return
			}
			select {
			case lines <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, lines
}

func runRendezvous(path string) error {
	var c Rendezvous
	if err := read(path, &c); err != nil {
		return err
	}
	ctx, _ := untilStdinEnds()
	ip, err := netip.ParseAddr(c.RelayIP)
	if err != nil {
		return err
	}
	s, err := rendezvous.New(ctx, rendezvous.Config{
		Listen: c.Listen, Roots: c.Roots, StateDir: c.StateDir, Names: []string{c.RelayIP}, STUN: []string{c.RelayIP + ":3478"}, RelayIP: ip,
		AllowPrivateRelay: true, Revocations: true, Log: logger(false),
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.CAFile, s.CA(), 0o600); err != nil {
		return err
	}
	fmt.Println("{}")
	return s.Run(ctx)
}

func runNode(path string) error {
	var c Config
	if err := read(path, &c); err != nil {
		return err
	}
	ctx, lines := untilStdinEnds()
	node, err := newNode(c)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if err := serve(ctx, &wg, c); err != nil {
		return err
	}
	wg.Go(func() {
		if err := node.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "overlaynode: node ended:", err)
			os.Exit(1)
		}
	})
	return serveRequests(ctx, &wg, lines, func(r Request) Response { return answer(ctx, node, r) })
}

// serveRequests answers lines, each as soon as it is done, until ctx ends.
func serveRequests(ctx context.Context, wg *sync.WaitGroup, lines <-chan Request, answer func(Request) Response) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(Response{}); err != nil {
		return err
	}
	var writing sync.Mutex
	for {
		select {
		case r := <-lines:
			wg.Go(func() {
				res := answer(r)
				res.ID = r.ID
				writing.Lock()
				defer writing.Unlock()
				if err := out.Encode(res); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "overlaynode: answer:", err)
				}
			})
		case <-ctx.Done():
			return nil
		}
	}
}

func newNode(c Config) (*overlay.Node, error) {
	self, err := overlay.ParseID(c.Self)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	cfg := overlay.Config{
		Self: self, SelfVIP: c.VIP, Listen: c.Listen, Rendezvous: c.Rendezvous, Paths: c.Paths, Log: logger(c.Debug),
		OnDemand: c.OnDemand, IdleTime: c.IdleTime,
	}
	if c.Gateway != "" {
		cfg.Gateway = overlay.Gateway{Domain: gatewayDomain, Address: c.Gateway}
	}
	node, err := overlay.New(cfg)
	if err != nil {
		return nil, err
	}
	node.SetCredentials(overlay.Credentials{Certificate: cert, Roots: roots})
	peers, err := peers(c.Peers)
	if err != nil {
		return nil, err
	}
	node.SetPeers(peers)
	return node, nil
}

func peers(list []Peer) ([]overlay.Peer, error) {
	var out []overlay.Peer
	for _, p := range list {
		id, err := overlay.ParseID(p.ID)
		if err != nil {
			return nil, err
		}
		peer := overlay.Peer{ID: id, BootID: p.BootID, InstanceID: p.InstanceID, VIP: p.VIP, Coordinator: p.Coordinator}
		for _, port := range p.Ports {
			for _, protocol := range []overlay.Protocol{overlay.TCP, overlay.UDP} {
				ref := overlay.PortRef{Protocol: protocol, Port: port}
				peer.Offers, peer.Accepts = append(peer.Offers, ref), append(peer.Accepts, ref)
			}
		}
		for _, port := range p.Refused {
			peer.Offers = append(peer.Offers, overlay.PortRef{Protocol: overlay.TCP, Port: port})
		}
		out = append(out, peer)
	}
	return out, nil
}

func answer(ctx context.Context, node *overlay.Node, r Request) Response {
	var (
		res Response
		err error
	)
	switch r.Verb {
	case Sessions:
		res.Sessions = node.Sessions()
	case Changes:
		id, parse := overlay.ParseID(r.Peer)
		res.Changes, err = node.PathChanges(id), parse
	case SetPeers:
		list, parse := peers(r.Peers)
		if err = parse; err == nil {
			node.SetPeers(list)
		}
	case Dial, Watch:
		res, err = watch(ctx, r)
	case Datagram:
		res, err = datagram(ctx, r)
	case Bulk:
		res, err = bulk(ctx, r)
	case Clog:
		res, err = clog(ctx, r)
	case Stats:
		st := node.Stats()
		var mem runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&mem)
		res = Response{Stats: &st, Goroutines: runtime.NumGoroutine(), HeapBytes: mem.HeapInuse + mem.StackInuse, Canaries: canaries.Load()}
	default:
		err = fmt.Errorf("unknown verb %q", r.Verb)
	}
	if err != nil {
		res.Error = err.Error()
	}
	return res
}
