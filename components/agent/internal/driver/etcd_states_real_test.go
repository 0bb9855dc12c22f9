package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAHangingEtcdIsNotTakenForDead: a stopped process answers nothing, which proves nothing; a
// refused connection proves that no process listens.
func TestAHangingEtcdIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	c := etcdServers(t, 5, etcdSetup{})
	within(t, c.settle, "form", c.healthy)
	at := (c.leader(t) + 1) % 3
	pid := c.procs[at].cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	sees(t, c.drivers[at], "no answer", noAnswer)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	within(t, c.settle, "answer again", c.healthy)
	c.procs[at].stop()
	v, err := c.drivers[at].Observe(t.Context())
	if err != nil || v.Liveness != LivenessRefused || v.MayDisrupt || !strings.Contains(v.Message, "refused") {
		t.Errorf("ended: %+v, %v", v, err)
	}
}

// noAnswer is the view of a member whose process hangs.
func noAnswer(v View) bool {
	return v.Liveness == LivenessUnknown && !v.MayDisrupt && !v.Ready && strings.Contains(v.MayDisruptReason, "no answer within 900ms")
}

// noTLS is the view of a member that answers, and not to the TLS settings of the driver.
func noTLS(v View) bool {
	return v.Liveness == LivenessAlive && !v.Ready && !v.MayDisrupt && strings.Contains(v.Message, "ca_file")
}

// TestAnEtcdThatAsksForALoginLives, with any login of the driver, and the reason names the missing
// setting.
func TestAnEtcdThatAsksForALoginLives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	c := etcdServers(t, 6, etcdSetup{})
	within(t, c.settle, "form", c.healthy)
	cli := c.operator()
	for _, err := range []error{
		second(cli.UserAdd(t.Context(), "root", "first")), second(cli.UserGrantRole(t.Context(), "root", "root")),
		second(cli.UserAdd(t.Context(), "app", "app")), second(cli.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	password := func(text string) string {
		at := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(at, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	right := password("first")
	for name, tc := range map[string]struct {
		settings map[string]string
		says     string
	}{
		"no user":        {nil, "set the workload settings user and password_file"},
		"wrong password": {map[string]string{"user": "root", "password_file": password("other")}, "refuses the login of user \"root\""},
		"wrong user":     {map[string]string{"user": "app", "password_file": password("app")}, "a user that has the role root"},
		"no file":        {map[string]string{"user": "root", "password_file": "/nonexistent/password"}, "password_file"},
	} {
		d := c.driver(0, tc.settings)
		sees(t, d, name, func(v View) bool {
			return v.Liveness == LivenessAlive && !v.Ready && !v.MayDisrupt && strings.Contains(v.Message, tc.says)
		})
	}
	for i := range c.drivers {
		c.drivers[i] = c.driver(i, map[string]string{"user": "root", "password_file": right})
	}
	c.contract(t)

	// The password changes, first at etcd and then in the file.
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{c.client(0)}, Username: "root", Password: "first", DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // the test ends
	if _, err := root.UserChangePassword(t.Context(), "root", "second"); err != nil {
		t.Fatal(err)
	}
	sees(t, c.drivers[0], "the old password is refused", func(v View) bool { return v.Liveness == LivenessAlive && !v.Ready })
	if err := os.WriteFile(right, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, c.settle, "the new password", c.healthy)
}

func second[T any](_ T, err error) error { return err }

// TestAnEtcdWithTLSLives, with any certificates of the driver.
func TestAnEtcdWithTLSLives(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	a, addr := newAuthority(t), subnet(t, 7)
	cert, key := a.issue("server", addr(0), addr(1), addr(2))
	mine, myKey := a.issue("agent")
	c := etcdServers(t, 7, etcdSetup{
		tls: true, flags: []string{"--cert-file", cert, "--key-file", key, "--trusted-ca-file", a.ca, "--client-cert-auth"},
		settings: map[string]string{"ca_file": a.ca, "cert_file": mine, "key_file": myKey},
	})
	within(t, c.settle, "form", c.healthy)
	for name, settings := range map[string]map[string]string{
		"without TLS":       nil,
		"another authority": {"ca_file": newAuthority(t).ca, "cert_file": mine, "key_file": myKey},
		"no certificate":    {"ca_file": a.ca},
		"no key file":       {"ca_file": a.ca, "cert_file": mine, "key_file": "/nonexistent/key.pem"},
	} {
		sees(t, c.driver(0, settings), name, noTLS)
	}
	c.contract(t)
}

// TestALargerQuotaEndsARefusalOfWrites takes members at their quota through the cure: each may be
// restarted as long as the others are a majority, and both steps are named until the second is
// done.
func TestALargerQuotaEndsARefusalOfWrites(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three etcd members")
	}
	c := etcdServers(t, 8, etcdSetup{flags: []string{"--quota-backend-bytes", "16777216"}})
	within(t, c.settle, "form", c.healthy)
	cli := c.operator()
	big := strings.Repeat("x", 512<<10)
	put := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := cli.Put(ctx, fmt.Sprint(time.Now().UnixNano()), big)
		return err
	}
	within(t, time.Minute, "writes are refused", func(ctx context.Context) error {
		err := put(ctx)
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		return fmt.Errorf("not refused: %w", err)
	})
	full := func(v View) bool {
		return v.Ready && v.MayDisrupt && strings.Contains(v.Fault, "--quota-backend-bytes") && strings.Contains(v.Fault, "etcdctl alarm disarm")
	}
	for i := range 3 {
		sees(t, c.drivers[i], "writes refused, and may be stopped", full)
		for path, want := range map[string]int{
			"/readyz": http.StatusOK, "/health": http.StatusServiceUnavailable,
			"/health?exclude=NOSPACE": http.StatusOK, // the check of clusters/etcd
		} {
			if got := c.status(i, path); got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	}
	for i := range 3 {
		c.procs[i].stop()
		c.procs[i].argv = append(c.procs[i].argv, "--quota-backend-bytes", "1073741824")
		c.procs[i].start()
		within(t, c.settle, "all are back", c.healthy)
	}
	for i := range 3 {
		sees(t, c.drivers[i], "the alarm stands", full)
	}
	if err := put(t.Context()); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a write after the larger quota alone: %v", err)
	}
	if _, err := cli.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		sees(t, c.drivers[i], "the alarm is over", func(v View) bool { return v.Ready && v.MayDisrupt && v.Fault == "" })
	}
	if err := put(t.Context()); err != nil {
		t.Errorf("a write after both steps: %v", err)
	}
}

// status is the answer at a path of member i's client port.
func (c *etcdCluster) status(i int, path string) int {
	c.t.Helper()
	res, err := http.Get(c.client(i) + path)
	if err != nil {
		c.t.Error(err)
		return 0
	}
	defer res.Body.Close()               //nolint:errcheck // read to the end
	_, _ = io.Copy(io.Discard, res.Body) // only the status counts
	return res.StatusCode
}
