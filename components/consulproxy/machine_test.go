package consulproxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cadre.dev/agent/servicelayertest"
	"cadre.dev/core/group"
	"cadre.dev/overlay"
)

// A machine is another process of this program, in a network of its own, as a CVM has one: the
// same VIP and port belongs to a workload at one machine and to the overlay at another. Its
// processes are in a namespace of their own too, so that they end with it. It reaches the
// outside through sockets in its folder:
//
//	<dir>/gateway   to the platform's gateway, from it
//	<dir>/session   from the gateway, to where its Sessions come in
//	<dir>/dial      from the test, to an address in its network
//	<dir>/ask       from the test: orders and questions
//
// It ends when its standard input does.
const asMachine = "CADRE_TEST_MACHINE"

// machineConfig is the configuration of a machine at its start.
type machineConfig struct {
	Self          overlay.ID
	VIP           netip.Addr
	Cert, Key, CA []byte // PEM
	Domain        string
	Peers         []overlay.Peer
	Dir, Envoy    string
	Workloads     []string // addresses where a workload of it listens
	ServiceMesh   group.ServiceMesh
	Role          string
}

// Where a machine listens for its own.
var (
	machineConsul = netip.MustParseAddrPort("127.0.0.1:8500")
	machineXDS    = netip.MustParseAddrPort("127.0.0.1:8502")
)

// runMachine is the whole of a machine's process.
func runMachine() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	in := json.NewDecoder(os.Stdin)
	var cfg machineConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := errors.Join(privateProc(), loopbackUp()); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	m, err := newMachineParts(ctx, cfg, log)
	if err != nil {
		return err
	}
	for _, at := range cfg.Workloads {
		if err := workload(ctx, at, cfg.Self.Slot); err != nil {
			return err
		}
	}
	if err := unixListener(ctx, cfg.Dir, "dial", dialled); err != nil {
		return err
	}
	if err := unixListener(ctx, cfg.Dir, "session", func(conn net.Conn) {
		if at := m.Listening(); at != nil {
			spliceTo(conn, "tcp", at.String())
		}
	}); err != nil {
		return err
	}
	if err := serveOrders(ctx, cfg.Dir, m); err != nil {
		return err
	}
	return m.Run(ctx)
}

func newMachineParts(ctx context.Context, cfg machineConfig, log *slog.Logger) (*servicelayertest.Machine, error) {
	cert, err := tls.X509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CA)
	gateway, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	accept(ctx, gateway, func(conn net.Conn) { spliceTo(conn, "unix", filepath.Join(cfg.Dir, "gateway")) })
	if err := os.Mkdir(filepath.Join(cfg.Dir, "state"), 0o700); err != nil {
		return nil, err
	}
	m, err := servicelayertest.NewMachine(servicelayertest.MachineConfig{
		Self: cfg.Self, VIP: cfg.VIP, Credentials: overlay.Credentials{Certificate: cert, Roots: roots}, Listen: "127.0.0.1:7443",
		Gateway: overlay.Gateway{Domain: cfg.Domain, Address: gateway.Addr().String()}, Peers: cfg.Peers,
		Dir: cfg.Dir, Envoy: cfg.Envoy, Consul: machineConsul, XDS: machineXDS, Log: log,
	})
	if err != nil {
		return nil, err
	}
	m.Say(cfg.Role, true)
	if cfg.ServiceMesh.Group != "" {
		m.Pretend(cfg.ServiceMesh)
	}
	return m, nil
}

// privateProc has /proc show the machine's own processes.
func privateProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // it was only asked with
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// workload answers each line with the name of its machine.
func workload(ctx context.Context, at, name string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	accept(ctx, l, func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // the caller is gone
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if _, err := fmt.Fprintln(conn, name); err != nil {
				return
			}
		}
	})
	return nil
}

// accept has serve called for each connection until ctx ends.
func accept(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
}

func unixListener(ctx context.Context, dir, name string, serve func(net.Conn)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, name))
	if err == nil {
		accept(ctx, l, serve)
	}
	return err
}

// dialled reads an address from conn, and is a connection to it from then on.
func dialled(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the caller is gone
	var at strings.Builder
	for b := make([]byte, 1); ; { // no byte more than the line
		if _, err := conn.Read(b); err != nil {
			return
		}
		if b[0] == '\n' {
			break
		}
		at.WriteByte(b[0])
	}
	far, err := net.DialTimeout("tcp", at.String(), limit)
	if err != nil {
		_, _ = fmt.Fprintln(conn, err)
		return
	}
	if _, err := fmt.Fprintln(conn, "ok"); err == nil {
		splice(conn, far)
	}
}

func spliceTo(near net.Conn, network, address string) {
	far, err := net.DialTimeout(network, address, limit)
	if err != nil {
		_ = near.Close()
		return
	}
	splice(near, far)
}

// splice copies both ways, each until its end; an error ends both.
func splice(a, b net.Conn) {
	var ways sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		ways.Go(func() {
			if _, err := io.Copy(pair[0], pair[1]); err != nil {
				_, _ = a.Close(), b.Close()
				return
			}
			_ = pair[0].(interface{ CloseWrite() error }).CloseWrite()
		})
	}
	ways.Wait()
	_, _ = a.Close(), b.Close()
}

// lie is a machine's change to its own peer map.
type lie struct {
	Slot            string
	Offers, Accepts []overlay.PortRef
	// Add is a Peer that coordinators do not name.
	Add *overlay.Peer
}

func (l lie) alter(list []overlay.Peer) []overlay.Peer {
	list = slices.Clone(list)
	if l.Add != nil && !slices.ContainsFunc(list, func(p overlay.Peer) bool { return p.ID == l.Add.ID }) {
		list = append(list, *l.Add)
	}
	for i := range list {
		if list[i].ID.Slot == l.Slot {
			list[i].Offers = append(slices.Clone(list[i].Offers), l.Offers...)
			list[i].Accepts = append(slices.Clone(list[i].Accepts), l.Accepts...)
		}
	}
	return list
}

// said is a driver's report.
type said struct {
	Role  string
	Ready bool
}

// machineState is a machine's report on itself.
type machineState struct {
	Envoys   []servicelayertest.EnvoyStatus
	Sessions []overlay.SessionInfo
}

func serveOrders(ctx context.Context, dir string, m *servicelayertest.Machine) error {
	mux := http.NewServeMux()
	order := func(pattern string, do func(body []byte) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = do(body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	order("POST /say", func(body []byte) error {
		var s said
		err := json.Unmarshal(body, &s)
		m.Say(s.Role, s.Ready)
		return err
	})
	order("POST /lie", func(body []byte) error {
		var l lie
		err := json.Unmarshal(body, &l)
		m.Alter(l.alter)
		return err
	})
	order("POST /kill", func(body []byte) error {
		for _, s := range m.Envoys() {
			if s.ID == string(body) && s.PID > 1 {
				return syscall.Kill(s.PID, syscall.SIGKILL)
			}
		}
		return fmt.Errorf("no envoy of %s runs", body)
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(machineState{m.Envoys(), m.Sessions()})
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "ask"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: limit}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
	return nil
}

// machine is one as the test has it.
type machine struct {
	t    *testing.T
	name string
	dir  string
	ask  *http.Client
	said *journal
}

// journal has the lines that a machine logged.
type journal struct {
	mu   sync.Mutex
	half []byte   // guarded by mu
	all  []string // guarded by mu
	t    *testing.T
	name string
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.half = append(j.half, p...)
	for {
		line, rest, whole := bytes.Cut(j.half, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		j.half = rest
		j.all = append(j.all, string(line))
		_, _ = fmt.Fprintf(j.t.Output(), "%s: %s\n", j.name, line)
	}
}

// lines are the lines that contain all of parts.
func (j *journal) lines(parts ...string) (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.all {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			out = append(out, line)
		}
	}
	return out
}

// await gives the last line that has all of parts, once there are so many.
func (j *journal) await(t *testing.T, count int, parts ...string) (last string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s logs %q", j.name, parts), func() error {
		found := j.lines(parts...)
		if len(found) < count {
			return fmt.Errorf("%d times, want %d", len(found), count)
		}
		last = found[len(found)-1]
		return nil
	})
	return last
}

// startMachine runs one until the test is over. Without root the test is skipped.
func startMachine(t *testing.T, cfg machineConfig, gateway string) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for machines with networks of their own")
	}
	dir, err := os.MkdirTemp("", "m") //nolint:usetesting // a socket's path has a bound, and that of t.TempDir is long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	if err := unixListener(ctx, dir, "gateway", func(conn net.Conn) { spliceTo(conn, "tcp", gateway) }); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, name: cfg.Self.Slot, dir: dir, said: &journal{t: t, name: cfg.Self.Slot}}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asMachine+"=1")
	cmd.Stdout, cmd.Stderr = m.said, m.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		late := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", m.name, err)
		}
	})
	if _, err := in.Write(text); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "ask"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	m.ask = &http.Client{Transport: transport, Timeout: limit}
	return m
}

// order has the machine do something.
func (m *machine) order(what string, body any) {
	m.t.Helper()
	text, raw := body.(string)
	if !raw {
		data, err := json.Marshal(body)
		if err != nil {
			m.t.Fatal(err)
		}
		text = string(data)
	}
	res, err := m.ask.Post("http://machine/"+what, "", strings.NewReader(text))
	if err != nil {
		m.t.Fatalf("%s: %s: %v", m.name, what, err)
	}
	defer func() { _ = res.Body.Close() }()
	if answer, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %s: %s %v", m.name, what, answer, err)
	}
}

// say sets the report of the machine's driver.
func (m *machine) say(role string, ready bool) {
	m.t.Helper()
	m.order("say", said{role, ready})
}

// state is how the machine is; an error while it starts.
func (m *machine) state() (s machineState, err error) {
	res, err := m.ask.Get("http://machine/state")
	if err != nil {
		return s, err
	}
	defer func() { _ = res.Body.Close() }()
	return s, json.NewDecoder(res.Body).Decode(&s)
}

// proxy is how one of its Envoys is.
func (m *machine) proxy(id string) (servicelayertest.EnvoyStatus, error) {
	s, err := m.state()
	for _, e := range s.Envoys {
		if e.ID == id {
			return e, nil
		}
	}
	return servicelayertest.EnvoyStatus{}, errors.Join(err, fmt.Errorf("%s has no proxy %s", m.name, id))
}

// live waits until one of its Envoys is.
func (m *machine) live(id string) (now servicelayertest.EnvoyStatus) {
	m.t.Helper()
	eventually(m.t, fmt.Sprintf("%s of %s is live", id, m.name), func() (err error) {
		if now, err = m.proxy(id); err == nil && now.State != "live" {
			err = fmt.Errorf("it is %s: %s", now.State, now.Message)
		}
		return err
	})
	return now
}

// admin asks one of its Envoys.
func (m *machine) admin(id, page string) (string, error) {
	folders, err := filepath.Glob(filepath.Join(m.dir, "envoy", "*"))
	if err != nil {
		return "", err
	}
	for _, folder := range folders {
		if text, err := os.ReadFile(filepath.Join(folder, "bootstrap.json")); err != nil || !bytes.Contains(text, []byte(`"`+id+`"`)) {
			continue
		}
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(folder, "admin.sock"))
		}}
		res, err := (&http.Client{Transport: transport, Timeout: limit}).Get("http://envoy" + page)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	return "", fmt.Errorf("%s has no envoy of %s", m.name, id)
}

// dial connects to an address in the machine's network.
func (m *machine) dial(address string) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", filepath.Join(m.dir, "dial"), limit)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err = fmt.Fprintln(conn, address); err == nil {
		var word string
		if word, err = line(conn); err == nil && word != "ok" {
			err = errors.New(word)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// line reads one, and nothing more.
func line(conn net.Conn) (string, error) {
	var out strings.Builder
	for b := make([]byte, 1); ; {
		if _, err := conn.Read(b); err != nil {
			return out.String(), err
		}
		if b[0] == '\n' {
			return out.String(), nil
		}
		out.WriteByte(b[0])
	}
}

// answer asks a workload over conn who it is.
func answer(conn net.Conn) (string, error) {
	if _, err := io.WriteString(conn, "who\n"); err != nil {
		return "", err
	}
	return line(conn)
}

// request returns the name of the member that answers at an address, over a connection of its
// own.
func (m *machine) request(address string) (string, error) {
	conn, err := m.dial(address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return answer(conn)
}

// keyPEM is a certificate's private key.
func keyPEM(t *testing.T, cert tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// envoyProgram finds the program below .tools of this repository or on PATH.
func envoyProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if at, err := filepath.EvalSymlinks(filepath.Join(dir, ".tools/bin/envoy")); err == nil {
			return at
		}
	}
	at, err := exec.LookPath("envoy")
	if err != nil {
		t.Fatal("envoy is neither in .tools/bin nor on PATH: make tools gets it")
	}
	if at, err = filepath.EvalSymlinks(at); err != nil {
		t.Fatal(err)
	}
	return at
}
