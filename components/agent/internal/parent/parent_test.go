package parent

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The test binary plays three parts: the tests, a parent, and that parent's worker.
const partEnv = "CADRE_TEST_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(partEnv) {
	case "":
		os.Exit(m.Run())
	case "parent":
		playParent()
	case "worker":
		playWorker()
	}
}

func playParent() {
	// Orphans come here, as they do to pid 1.
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, 36 /* PR_SET_CHILD_SUBREAPER */, 1, 0); err != 0 {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	_ = os.Setenv(partEnv, "worker")
	os.Exit(Run(ctx, Config{
		Command: append([]string{os.Args[0]}, os.Args[1:]...), Sessions: map[string]string{"udp4": "0.0.0.0:0"},
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), steady: steadyOf(), stop: 300 * time.Millisecond,
		look: 20 * time.Millisecond,
	}))
}

// selfReport is the answer of a worker to each client.
type selfReport struct {
	Pid, Parent int
	Run         uint32
	Boot        string
	UDP         string
}

// playWorker serves at the address in its last argument: it reports its identity and follows the
// commands it reads.
func playWorker() {
	if os.Args[1] == "fail" {
		os.Exit(7)
	}
	w, err := Inherited()
	must(err)
	key, err := w.Key()
	must(err)
	udp, err := w.ListenPacket(context.Background(), "udp4", "0.0.0.0:0")
	must(err)
	extra, err := w.Listen(context.Background(), "tcp", "127.0.0.1:0")
	must(err)
	must(extra.Close())
	l, err := w.Listen(context.Background(), "tcp", os.Args[len(os.Args)-1])
	must(err)
	run, err := w.Run()
	must(err)
	p := &part{worker: w, run: run, key: key, udp: udp.LocalAddr().String()}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		for range terminated {
			if !p.deaf.Load() {
				os.Exit(0)
			}
		}
	}()
	for {
		conn, err := l.Accept()
		must(err)
		go p.talk(conn)
	}
}

// part is the state of a worker.
type part struct {
	worker *Worker
	run    uint32
	udp    string
	deaf   atomic.Bool

	mu  sync.Mutex
	key *ecdsa.PrivateKey // guarded by mu
}

func (p *part) report(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	public, err := p.key.PublicKey.Bytes()
	must(err)
	sum := sha256.Sum256(public)
	// The client may have disconnected.
	_ = json.NewEncoder(conn).Encode(selfReport{Pid: os.Getpid(), Parent: os.Getppid(), Run: p.run, Boot: hex.EncodeToString(sum[:]), UDP: p.udp})
}

func (p *part) talk(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // a test's
	p.report(conn)
	asked := bufio.NewScanner(conn)
	for asked.Scan() {
		switch asked.Text() {
		case "kill":
			must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		case "panic":
			// A panic in this goroutine would run the deferred close first: the connection would
			// end before the process, and the dying process would still accept new clients.
			go panic("as ordered")
			select {}
		case "exit":
			os.Exit(0)
		case "fail":
			os.Exit(3)
		case "deaf":
			p.deaf.Store(true)
			p.report(conn)
		case "mumble":
			_, err := p.worker.conn.Write([]byte("this is no request"))
			must(err)
			if _, err := p.worker.Key(); err == nil {
				panic("the parent still answers")
			}
			p.report(conn)
		case "new-key":
			key, err := p.worker.NewKey()
			must(err)
			p.mu.Lock()
			p.key = key
			p.mu.Unlock()
			p.report(conn)
		case "beat":
			must(p.worker.Beat())
		case "beat and stop":
			must(p.worker.Beat())
			must(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
		case "orphan":
			// A child of a child that has ended.
			out, err := exec.Command("sh", "-c", "sleep 0 & echo $!").Output()
			must(err)
			_, err = conn.Write(out)
			must(err)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// rig is one parent under test.
type rig struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	log     *syncBuffer
}

func begin(t *testing.T) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, address: l.Addr().String(), log: &syncBuffer{}}
	_ = l.Close()
	r.cmd = play(t, r.log, r.address)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	// The first socket is not there yet.
	for {
		conn, err := net.Dial("tcp", r.address)
		if err == nil {
			_ = conn.Close()
			return r
		}
		if t.Context().Err() != nil {
			t.Fatal("the worker never listened")
		}
	}
}

func play(t *testing.T, log *syncBuffer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), partEnv+"=parent")
	cmd.Stderr = log
	return cmd
}

// dial connects and reads which worker serves. No connection is ever refused.
func (r *rig) dial() (net.Conn, *json.Decoder, selfReport) {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatalf("refused: %v", err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	d := json.NewDecoder(conn)
	return conn, d, r.hear(d)
}

func (r *rig) hear(d *json.Decoder) selfReport {
	r.t.Helper()
	var who selfReport
	if err := d.Decode(&who); err != nil {
		r.t.Fatalf("no worker answers: %v", err)
	}
	return who
}

func say(t *testing.T, conn net.Conn, word string) {
	t.Helper()
	if _, err := fmt.Fprintln(conn, word); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerThatDiesIsTheSameBootAgain(t *testing.T) {
	r := begin(t)
	for _, end := range []string{"kill", "panic", "fail", "kill"} {
		conn, d, before := r.dial()
		if before.Parent != r.cmd.Process.Pid {
			t.Fatalf("the worker's parent is %d, not %d", before.Parent, r.cmd.Process.Pid)
		}
		say(t, conn, end)
		if err := d.Decode(&selfReport{}); err == nil {
			t.Error("an open connection outlives the worker")
		}
		// A connection in the gap waits.
		_, _, after := r.dial()
		if after.Boot != before.Boot || after.UDP != before.UDP || after.Pid == before.Pid || after.Run != before.Run+1 {
			t.Errorf("after %s: %+v, before %+v", end, after, before)
		}
	}
	if text := r.log.String(); !strings.Contains(text, "signal=killed") || !strings.Contains(text, "code=2") || !strings.Contains(text, "code=3") {
		t.Errorf("the log does not say how the workers ended:\n%s", text)
	}
}

// A worker that hangs but can still run prints its stacks; a stopped worker cannot, and is killed.
func TestAWorkerThatHangsIsStartedAgain(t *testing.T) {
	for _, how := range []string{"beat", "beat and stop"} {
		r := begin(t)
		conn, d, before := r.dial()
		say(t, conn, how) // and nothing more
		for d.Decode(&selfReport{}) == nil {
			continue // until its end
		}
		_, _, after := r.dial()
		if after.Boot != before.Boot || after.Run != before.Run+1 {
			t.Errorf("%s: %+v, before %+v", how, after, before)
		}
		for !strings.Contains(r.log.String(), "the worker hangs") {
			if t.Context().Err() != nil {
				t.Fatalf("%s: the log does not say why it ended:\n%s", how, r.log)
			}
		}
		text := r.log.String()
		if how == "beat" && (!strings.Contains(text, "SIGQUIT: quit") || !strings.Contains(text, "playWorker")) {
			t.Errorf("it does not print its stacks:\n%s", text)
		}
	}
}

func TestTOK21_ASpentBootGetsAnotherKey(t *testing.T) {
	r := begin(t)
	conn, d, before := r.dial()
	say(t, conn, "new-key")
	if after := r.hear(d); after.Boot == before.Boot {
		t.Error("the key is the old one")
	}
}

// A worker that ends in order has sent its farewell: its Boot must not be used again.
func TestTOK21_AWorkerThatEndsInOrderEndsItsBoot(t *testing.T) {
	r := begin(t)
	conn, d, before := r.dial()
	say(t, conn, "exit")
	if err := d.Decode(&selfReport{}); err == nil {
		t.Fatal("the worker did not end")
	}
	var after selfReport
	for {
		// The old Boot's sockets go with it, so a refusal may come first.
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			continue
		}
		err = json.NewDecoder(conn).Decode(&after)
		_ = conn.Close()
		if err == nil {
			break
		}
	}
	if after.Boot == before.Boot {
		t.Error("the next worker has the spent Boot's key")
	}
}

func TestTOK22_AWorkerThatSaysNonsenseIsNotAnswered(t *testing.T) {
	r := begin(t)
	conn, d, before := r.dial()
	say(t, conn, "mumble")
	if r.hear(d).Pid != before.Pid {
		t.Error("another worker answers")
	}
	say(t, conn, "kill")
	_ = d.Decode(&selfReport{})
	if _, _, after := r.dial(); after.Boot != before.Boot {
		t.Error("the Boot is another")
	}
}

func TestAParentStopsItsWorker(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		r := begin(t)
		conn, d, who := r.dial()
		if deaf {
			say(t, conn, "deaf")
			r.hear(d)
		}
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := r.cmd.Wait(); err != nil {
			t.Errorf("deaf %v: %v", deaf, err)
		}
		if err := syscall.Kill(who.Pid, 0); err == nil {
			t.Errorf("deaf %v: the worker is still there", deaf)
		}
	}
}

func TestTheWorkerDiesWithItsParent(t *testing.T) {
	r := begin(t)
	_, d, _ := r.dial()
	_ = r.cmd.Process.Kill()
	if err := d.Decode(&selfReport{}); err == nil {
		t.Error("the worker lives on")
	}
}

func TestOrphansAreReaped(t *testing.T) {
	r := begin(t)
	conn, _, _ := r.dial()
	say(t, conn, "orphan")
	// dial's decoder has read the first line only, and this comes after it.
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	stat := "/proc/" + strings.TrimSpace(line) + "/stat"
	for {
		if _, err := os.Stat(stat); err != nil {
			return // gone, not a zombie
		}
		if t.Context().Err() != nil {
			t.Fatal("the orphan is still there")
		}
	}
}

func TestAnErrorAtTheFirstStartIsTheParents(t *testing.T) {
	err := play(t, &syncBuffer{}, "fail").Run()
	exited, ok := err.(*exec.ExitError) //nolint:errorlint // Run gives no other
	if !ok || exited.ExitCode() != 7 {
		t.Errorf("got %v", err)
	}
}

func TestWithoutAParentThereIsNoWorker(t *testing.T) {
	cmd := exec.Command(os.Args[0], "127.0.0.1:0")
	cmd.Env = append(os.Environ(), partEnv+"=worker")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no parent left a link") {
		t.Errorf("got %v\n%s", err, out)
	}
}

// steadyOf makes a worker steady at once, except in the test of workers that never become steady.
func steadyOf() time.Duration {
	if len(os.Args) > 1 && os.Args[1] == "fail" {
		return time.Hour
	}
	return time.Nanosecond
}
