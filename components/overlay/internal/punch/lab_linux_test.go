package punch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nat is a translator's answer to an unexpected SYN, and its choice of ports.
type nat string

const (
	public    nat = "public"    // no translator
	drops     nat = "drop"      // says nothing, as RFC 5382 asks for
	rejects   nat = "reject"    // answers RST
	kernelRST nat = "kernelrst" // lets its own kernel answer RST
	symmetric nat = "symmetric" // says nothing, and every destination has its own port
)

// lab is a small internet: sites, each with one public address and a line of a
// fixed delay to all others. Packets between sites go through this process.
type lab struct {
	t     testing.TB
	delay time.Duration
	rate  int // bytes per second of each line, 0 for no limit
	wg    sync.WaitGroup
	done  chan struct{}

	mu    sync.Mutex
	loss  float64 // share of packets that never arrive
	sites map[netip.Addr]*site
	files []*os.File
}

// site is a network namespace at the end of a line: a public host or a
// translator with hosts behind it.
type site struct {
	lab   *lab
	addr  netip.Addr
	ns    int
	kind  nat
	hosts int
	out   chan packet
}

type packet struct {
	due  time.Time
	data []byte
}

// newLab makes a lab that ends with the test, or skips the test with a reason.
func newLab(t testing.TB, oneWay time.Duration) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("the lab needs " + tool)
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("the lab needs /dev/net/tun")
	}
	l := &lab{t: t, delay: oneWay, done: make(chan struct{}), sites: make(map[netip.Addr]*site)}
	t.Cleanup(l.close)
	return l
}

func (l *lab) close() {
	close(l.done)
	for _, f := range l.files {
		f.Close()
	}
	l.wg.Wait()
	for _, s := range l.sites {
		unix.Close(s.ns)
	}
}

// site adds a site of a kind.
func (l *lab) site(kind nat) *site {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &site{
		lab: l, kind: kind, ns: newNamespace(l.t), out: make(chan packet, 350),
		addr: netip.AddrFrom4([4]byte{198, 18, 0, byte(len(l.sites) + 1)}),
	}
	l.sites[s.addr] = s
	s.inside(func() error {
		f, err := openTUN("wan")
		if err != nil {
			return err
		}
		l.files = append(l.files, f)
		l.wg.Go(func() { l.read(f) })
		l.wg.Go(func() { l.write(f, s.out) })
		return run("ip link set lo up", "ip addr add "+s.addr.String()+"/32 dev wan",
			"ip link set wan up mtu 1400", "ip route add default dev wan")
	})
	if kind == public {
		return s
	}
	answer := map[nat]string{
		drops: "drop", symmetric: "drop", rejects: "reject with tcp reset", kernelRST: "accept",
	}[kind]
	ports := ""
	if kind == symmetric {
		ports = "fully-random"
	}
	s.inside(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
			return err
		}
		return feed("nft -f -", fmt.Sprintf(`
			table ip nat {
				chain post {
					type nat hook postrouting priority 100
					oifname "wan" masquerade %s
				}
			}
			table ip filter {
				chain own {
					type filter hook input priority 0
					iifname "wan" ct state established,related accept
					iifname "wan" %s
				}
				chain through {
					type filter hook forward priority 0
					iifname "wan" ct state established,related accept
					iifname "wan" drop
				}
			}`, ports, answer))
	})
	return s
}

// lose makes the lab lose a share of all packets from now on.
func (l *lab) lose(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = share
}

// read takes packets off one line and puts them on another.
func (l *lab) read(f *os.File) {
	buf := make([]byte, 2048)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		if n < 20 || buf[0]>>4 != 4 {
			continue
		}
		l.mu.Lock()
		to := l.sites[netip.AddrFrom4([4]byte(buf[16:20]))]
		lost := rand.Float64() < l.loss
		l.mu.Unlock()
		if to == nil || lost {
			continue
		}
		select {
		case to.out <- packet{time.Now().Add(l.delay), append([]byte(nil), buf[:n]...)}:
		default: // the line's queue, some 30 ms at 100 Mbps beyond the delay, is full
		}
	}
}

// write delivers packets when they are due, no faster than the line's rate.
func (l *lab) write(f *os.File, in <-chan packet) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var free time.Time // when the line has sent the earlier packets
	for {
		select {
		case p := <-in:
			if l.rate > 0 {
				if free.Before(p.due) {
					free = p.due
				}
				free = free.Add(time.Duration(len(p.data)) * time.Second / time.Duration(l.rate))
				p.due = free
			}
			if wait := time.Until(p.due); wait > 0 {
				timer.Reset(wait)
				select {
				case <-timer.C:
				case <-l.done:
					return
				}
			}
			_, _ = f.Write(p.data)
		case <-l.done:
			return
		}
	}
}

// reflector runs a reflector at a public site.
func (s *site) reflector() string {
	var ln net.Listener
	s.inside(func() (err error) {
		ln, err = net.Listen("tcp4", netip.AddrPortFrom(s.addr, 3478).String())
		return err
	})
	return newReflector(s.lab.t, ln).addr()
}

// peer is a helper process at a site.
type peer struct {
	t   testing.TB
	enc *json.Encoder
	dec *json.Decoder
}

// peer starts a host at a public site or behind a translator.
func (s *site) peer() *peer {
	t := s.lab.t
	t.Helper()
	ns := s.ns
	if s.kind != public {
		ns = newNamespace(t)
		defer unix.Close(ns)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	if testing.Verbose() && os.Getenv("PUNCH_DEBUG") != "" {
		cmd.Env = append(os.Environ(), helperEnv+"=debug")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	inside(t, ns, cmd.Start)
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	if s.kind != public {
		s.hosts++
		net4 := fmt.Sprintf("10.%d.%d.", s.addr.As4()[3], s.hosts)
		name := fmt.Sprintf("lan%d", s.hosts)
		s.inside(func() error {
			return run(fmt.Sprintf("ip link add %s type veth peer name eth0 netns %d", name, cmd.Process.Pid),
				"ip addr add "+net4+"1/24 dev "+name, "ip link set "+name+" up")
		})
		inside(t, ns, func() error {
			return run("ip link set lo up", "ip addr add "+net4+"2/24 dev eth0", "ip link set eth0 up",
				"ip route add default via "+net4+"1")
		})
	}
	return &peer{t, json.NewEncoder(in), json.NewDecoder(out)}
}

// do gives an order and waits for the report.
func (p *peer) do(o order) report {
	var r report
	if err := p.enc.Encode(o); err != nil {
		return report{Err: "order: " + err.Error()}
	}
	if err := p.dec.Decode(&r); err != nil {
		return report{Err: "report: " + err.Error()}
	}
	return r
}

// must is do for orders that have to succeed.
func (p *peer) must(o order) report {
	p.t.Helper()
	r := p.do(o)
	if r.Err != "" {
		p.t.Fatalf("%s: %s", o.Do, r.Err)
	}
	return r
}

func (s *site) inside(f func() error) {
	s.lab.t.Helper()
	inside(s.lab.t, s.ns, f)
}

// inside runs f on a thread that is in a network namespace. f must start no
// goroutine that makes sockets.
func inside(t testing.TB, ns int, f func() error) {
	t.Helper()
	if err := onThread(func() error {
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	}); err != nil {
		t.Fatal(err)
	}
}

// newNamespace makes a network namespace and returns a handle of it.
func newNamespace(t testing.TB) (fd int) {
	t.Helper()
	if err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		return err
	}); err != nil {
		t.Skipf("making network namespaces: %v", err)
	}
	return fd
}

// onThread runs f on a thread that nothing else will ever run on.
func onThread(f func() error) error {
	out := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		out <- f()
	}()
	return <-out
}

// openTUN makes a TUN device in the namespace of the calling thread.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func run(lines ...string) error {
	for _, line := range lines {
		if err := feed(line, ""); err != nil {
			return err
		}
	}
	return nil
}

func feed(line, input string) error {
	args := strings.Fields(line)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", line, err), errors.New(string(out)))
	}
	return nil
}
