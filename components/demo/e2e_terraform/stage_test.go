package e2e_terraform

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/demo/internal/rigtest"
	"cadre.dev/demo/internal/tofu"
)

// stage is one cluster of clusters/ on a local cloud of its own.
type stage struct {
	*testing.T
	*tofu.Stand
	ctx context.Context //nolint:containedctx // the bound of one test, which a stage lives in
}

// need skips where the real thing cannot run, and returns the checkout's root.
func need(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a cloud and a cluster on it")
	}
	return rigtest.Needs(t, []string{"bwrap", "tofu"}, []string{"cadre", "cadre-local", "cadre-become", "terraform-provider-cadre"})
}

// open starts the cloud for a cluster, whose variables vars are.
func open(t *testing.T, name string, limit time.Duration, vars map[string]any) *stage {
	t.Helper()
	root := need(t)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "said.log"))
	if err != nil {
		t.Fatal(err)
	}
	stand, err := tofu.New(root, name, filepath.Join(dir, "state"), log)
	if err != nil {
		t.Fatal(err)
	}
	stand.Vars = vars
	stand.Env = []string{"TF_LOG=TRACE", "TF_LOG_PATH=" + filepath.Join(dir, "trace.log"), "NO_COLOR=1"}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	s := &stage{T: t, Stand: stand, ctx: ctx}
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("what was printed:\n%s", text[max(0, len(text)-6000):])
		}
		away, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := stand.Down(away); err != nil {
			t.Errorf("take the cloud down: %v", err)
		}
		_ = log.Close()
	})
	s.must("start the cloud", stand.Up(ctx, filepath.Join(root, ".out/images"), "--boot-delay", "1s"))
	return s
}

func (s *stage) must(doing string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", doing, err)
	}
}

// run is Tofu that succeeds.
func (s *stage) run(args ...string) {
	s.Helper()
	s.must(strings.Join(args, " "), s.Tofu(s.ctx, append(args, "-no-color")...))
}

// apply with more variables, name=value, or flags that begin with "-".
func (s *stage) apply(more ...string) {
	s.Helper()
	s.run(applied(more)...)
}

func applied(more []string) []string {
	args := []string{"apply", "-auto-approve"}
	for _, m := range more {
		if !strings.HasPrefix(m, "-") {
			m = "-var=" + m
		}
		args = append(args, m)
	}
	return args
}

// interrupt begins an apply, waits until it prints a line with text and then until ready succeeds,
// and has kill end it. It returns the output after that.
func (s *stage) interrupt(text string, ready func() error, kill func(pid int) error, more ...string) {
	s.Helper()
	out, in := io.Pipe()
	cmd := s.Command(s.ctx, append(applied(more), "-no-color")...)
	cmd.Stdout, cmd.Stderr = in, in
	// A group of its own, to be killed as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.must("start", cmd.Start())
	ended := make(chan error, 1)
	go func() { err := cmd.Wait(); _ = in.Close(); ended <- err }()
	reached := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		// A writer must not wait for a reader that gave up.
		defer func() { _, _ = io.Copy(io.Discard, out) }()
		for met := false; lines.Scan(); {
			_, _ = fmt.Fprintln(s.Stand.Log, lines.Text())
			if !met && strings.Contains(lines.Text(), text) {
				met = true
				close(reached)
			}
		}
	}()
	select {
	case <-reached:
		if err := ready(); err != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			s.Fatalf("after %q: %v", text, err)
		}
		s.must("kill", kill(cmd.Process.Pid))
		if err := <-ended; err == nil {
			s.Fatal("an apply that was killed succeeded: it was over already")
		}
	case err := <-ended:
		s.Fatalf("the apply ended before %q: %v", text, err)
	}
}

// killAll ends Terraform and its providers at one instant.
func killAll(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// killProviders kills the providers of a Terraform, which keeps running.
func killProviders(pid int) error {
	// Any of its threads may have begun them.
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return err
	}
	killed := 0
	for _, thread := range threads {
		children, _ := os.ReadFile(thread) // of a thread that ended there is nothing to know
		for _, child := range strings.Fields(string(children)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return err
			}
			if syscall.Kill(n, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		return fmt.Errorf("no provider runs below %d", pid)
	}
	return nil
}

// dial gives a client of the cluster, which the context file knows by now.
func (s *stage) dial() *client.Client {
	s.Helper()
	known, err := client.LoadContext(s.ContextFile())
	s.must("read the context", err)
	c, err := client.Dial(known, client.Options{})
	s.must("dial the coordinators", err)
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// seen waits until a look at a group satisfies ok.
func (s *stage) seen(c *client.Client, group string, ok func(client.View) bool) error {
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	// Index 1: the group may be about to be made.
	return c.Watch(ctx, group, 1, func(v client.View) (bool, error) { return !ok(v), nil }, nil)
}

// releases gives the release that each Slot names when the n-th api is asked through the
// gateway, as the printed command does it.
func (s *stage) releases(api string) map[string]string {
	s.Helper()
	outputs, err := s.Outputs(s.ctx)
	s.must("read the outputs", err)
	var try map[string]string
	s.must("read the commands", json.Unmarshal(outputs["try"], &try))
	words := strings.Fields(try[api])
	if len(words) != 6 || words[0] != "curl" || words[1] != "--cacert" || words[3] != "--resolve" {
		s.Fatalf("the command for %s is %q", api, try[api])
	}
	said := s.get(words[2], words[4], words[5])
	found := map[string]string{}
	for line := range strings.Lines(said) {
		if slot, release, ok := strings.Cut(strings.TrimSpace(line), " release "); ok {
			found[slot] = release
		} else {
			s.Logf("%s says: %s", api, line)
		}
	}
	return found
}

// get is `curl --cacert file --resolve name:port:host url`.
func (s *stage) get(caFile, resolve, url string) string {
	s.Helper()
	pem, err := os.ReadFile(caFile)
	s.must("read the gateway's CA", err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	parts := strings.SplitN(resolve, ":", 3)
	web := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(parts[2], parts[1]))
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, url, nil)
	s.must("ask", err)
	resp, err := web.Do(req)
	s.must("ask "+url, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	s.must("read the answer", err)
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body)
}
