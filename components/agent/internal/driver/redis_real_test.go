package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/adapter"
)

// redisServers are three members of the Redis example on the default ports of their own loopback addresses: servers,
// Sentinels, and an adapter in shell.
type redisServers struct {
	*testing.T
	example            string
	env                [3][]string
	servers, sentinels [3]*proc
}

func newRedis(t *testing.T, kind byte) *redisServers {
	t.Helper()
	server := tool(t, "bin/redis-server")
	for _, needed := range []string{"bin/redis-cli", "bin/jq", "bin/timeout"} {
		tool(t, needed)
	}
	example, err := filepath.Abs("../../../../docs/examples/drivers/redis")
	if err != nil {
		t.Fatal(err)
	}
	c, addr := &redisServers{T: t, example: example}, subnet(t, kind)
	dir, hosts := t.TempDir(), ""
	for i := range 3 {
		hosts += fmt.Sprintf("%s redis-%d\n", addr(i), i)
	}
	file := filepath.Join(dir, "hosts")
	if err := os.WriteFile(file, []byte(hosts), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		c.env[i] = []string{
			"CADRE_MEMBERS=redis-0,redis-1,redis-2", fmt.Sprintf("CADRE_SLOT=redis-%d", i), fmt.Sprintf("CADRE_ORDINAL=%d", i),
			"CADRE_VIP=" + addr(i).String(), "REDIS_DIR=" + own, "HOSTS=" + file,
			"PATIENCE=20", // a busy machine is no fault of the adapter
		}
		start := func(what string) *proc {
			p := &proc{t: t, log: filepath.Join(own, what+".log"), argv: []string{filepath.Join(example, "redis.sh"), what}, env: c.env[i]}
			p.env = append(p.env[:len(p.env):len(p.env)], "PATH="+filepath.Dir(server)+":"+os.Getenv("PATH"))
			p.start()
			return p
		}
		c.servers[i], c.sentinels[i] = start("server"), start("sentinel")
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
		for _, log := range logs {
			text, _ := os.ReadFile(log)
			t.Logf("%s:\n%s", log, text[max(0, len(text)-3000):])
		}
	})
	return c
}

// compose is the example's compose file with the commands of member i on this machine.
func (c *redisServers) compose(i int) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.example, "redis.yaml"))
	if err != nil {
		c.Fatal(err)
	}
	command := "env, " + strings.Join(c.env[i], ", ") + ", " + filepath.Join(c.example, "adapter.sh")
	command = strings.ReplaceAll(command, "CADRE_MEMBERS=redis-0,redis-1,redis-2, ", "") // for redis.sh
	file := filepath.Join(c.TempDir(), "compose.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "[/etc/cadre/adapter.sh", "["+command)), 0o600); err != nil {
		c.Fatal(err)
	}
	return file
}

// member asks the adapter of member i.
func (c *redisServers) member(ctx context.Context, i int) (adapter.Member, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.example, "adapter.sh"), "member")
	cmd.Env = append(append(os.Environ(), c.env[i]...), "CADRE_ANSWER_FD=1", "CADRE_REASON_FD=2")
	text, err := cmd.Output()
	if err != nil {
		return adapter.Member{}, err
	}
	var m adapter.Member
	if err := decodeAnswer(text, &m); err != nil {
		return m, err
	}
	return m, m.CheckOf(fmt.Sprintf("redis-%d", i), true)
}

// sees waits until member i fulfils is.
func (c *redisServers) sees(i int, what string, is func(adapter.Member) bool) {
	c.Helper()
	within(c.T, time.Minute, fmt.Sprintf("redis-%d is %s", i, what), func(ctx context.Context) error {
		m, err := c.member(ctx, i)
		if err == nil && !is(m) {
			text, _ := json.Marshal(m)
			err = errors.New(string(text))
		}
		return err
	})
}

func redisWell(leader string) func(adapter.Member) bool {
	return func(m adapter.Member) bool {
		return m.Ready && m.MayDisrupt && m.CaughtUp != nil && *m.CaughtUp && len(m.Busy) == 0 && len(m.Voters) == 3 && m.Leader == leader
	}
}

// TestTheRedisExampleConforms with real servers and Sentinels: a replica and the primary pass the suite, and a member
// that the others need must not be stopped.
func TestTheRedisExampleConforms(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three Redis servers and three Sentinels")
	}
	c := newRedis(t, 14)
	for i := range 3 {
		c.sees(i, "well under redis-0", redisWell("redis-0"))
	}
	const drains, moves = "ok    drain and undrain may be repeated", "ok    leadership moves and is confirmed"
	for n, want := range []string{drains, moves} {
		i := 1 - n // a replica, and then the primary
		code, said := CheckAdapter(t.Context(), "-exec", c.compose(i), "-slot", fmt.Sprintf("redis-%d", i), "-voters", "-transfer", "-drain", "-budget", "1m", "redis")
		if code != 0 || !strings.Contains(said, want) {
			t.Errorf("redis-%d: code %d, want 0 and %q:\n%s", i, code, want, said)
		}
		t.Log(said)
	}
	m, err := c.member(t.Context(), 0)
	if err != nil || m.Role != adapter.RoleFollower {
		t.Fatalf("redis-0 is %+v after its hand-over: %v", m, err)
	}
	led := int(m.Leader[len(m.Leader)-1] - '0')
	other := 3 - led // the replica that is not redis-0
	for i := range 3 {
		c.sees(i, "well under "+m.Leader, redisWell(m.Leader))
	}

	c.servers[0].kill()
	c.sees(0, "down", func(m adapter.Member) bool { return m.Liveness == adapter.Refused })
	for _, i := range []int{led, other} {
		c.sees(i, "needed", func(m adapter.Member) bool {
			return m.Ready && (m.MayDisrupt == (i == led)) && (i == led || m.MayDisruptReason == "no other replica is current")
		})
	}
	c.sentinels[0].kill()
	c.sees(0, "without a Sentinel", func(m adapter.Member) bool { return m.Leader == "" && !m.Ready })
	c.sentinels[other].kill()
	c.sees(led, "without a quorum", func(m adapter.Member) bool {
		return !m.Ready && m.MayDisruptReason == "too few Sentinels answer for a failover"
	})
}
