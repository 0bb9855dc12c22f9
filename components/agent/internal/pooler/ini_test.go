package pooler

import (
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func example() Config {
	return Config{
		Route: "postgres-master", Dir: "/run/cadre/pooler",
		Address: netip.MustParseAddrPort("127.10.3.7:5432"), Target: netip.MustParseAddrPort("127.11.3.7:5432"),
		Users: map[string]string{"app": "/run/mesh/secrets/app"},
	}
}

func TestFiles(t *testing.T) {
	ini := string(example().ini())
	for _, want := range []string{
		"\n* = host=127.11.3.7 port=5432\n",
		"\nlisten_addr = 127.10.3.7\nlisten_port = 5432\n",
		"\nunix_socket_dir = /run/cadre/pooler/postgres-master/run\nunix_socket_mode = 0700\n",
		"\nadmin_users = cadre-agent\n",
		"\nmax_client_conn = " + strconv.Itoa(maxClients) + "\n",
		"\ndefault_pool_size = " + strconv.Itoa(poolSize) + "\n",
	} {
		if !strings.Contains(ini, want) {
			t.Errorf("no %q in:\n%s", want, ini)
		}
	}
	var keys []string
	for line := range strings.Lines(ini) {
		if key, _, found := strings.Cut(line, " = "); found && !strings.HasPrefix(key, ";") {
			if slices.Contains(keys, key) {
				t.Errorf("%s is set twice", key)
			}
			keys = append(keys, key)
		}
	}
	rules := string(hba(map[string]string{"app": "/run/mesh/secrets/app", "all": ""}))
	if want := "host all \"all\" 127.0.0.0/8 trust\nhost all \"app\" 127.0.0.0/8 scram-sha-256\n"; !strings.HasSuffix(rules, want) {
		t.Errorf("rules:\n%swant at their end\n%s", rules, want)
	}
	got := string(userList([]user{{"app", `a "b"`}, {`o"o`, ""}}))
	if want := "\"cadre-agent\" \"\"\n\"app\" \"a \"\"b\"\"\"\n\"o\"\"o\" \"\"\n"; got != want {
		t.Errorf("users:\n%swant\n%s", got, want)
	}
}

func TestConfigReportsAllFaults(t *testing.T) {
	if err := example().validate(); err != nil {
		t.Errorf("the example: %v", err)
	}
	bad := Config{
		Route: "../x", Dir: "relative", Address: netip.MustParseAddrPort("10.0.0.1:5432"), Target: netip.MustParseAddrPort("[::1]:1"),
		Users: map[string]string{"": "/x", admin: "/x", "pgbouncer": "/x", "a\nb": "/x", "rel": "x", "free": ""},
		Log:   slog.New(slog.DiscardHandler),
	}
	_, err := New(bad)
	for _, want := range []string{
		`route "../x"`, `dir "relative"`, "address 10.0.0.1:5432", "target [::1]:1",
		`user ""`, `user "cadre-agent"`, `user "pgbouncer"`, `user "a\nb"`, `user "rel"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "free") {
		t.Errorf("one without a password is refused: %v", err)
	}
	long := example()
	long.Dir = "/" + strings.Repeat("x", 90)
	if err := long.validate(); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a path too long for a socket: %v", err)
	}
}

func TestParseLine(t *testing.T) {
	for line, want := range map[string]struct {
		level slog.Level
		text  string
	}{
		"2026-11-24 04:05:35.297 UTC [1150] LOG listening on 127.0.0.1:6999":      {slog.LevelDebug, "listening on 127.0.0.1:6999"},
		"2026-11-24 04:05:35.297 UTC [1150] WARNING cannot listen on 127.0.0.1:1": {slog.LevelWarn, "cannot listen on 127.0.0.1:1"},
		"2026-11-24 04:05:35.297 UTC [1150] FATAL @src/main.c:299 in x(): no":     {slog.LevelError, "@src/main.c:299 in x(): no"},
		"error while loading shared libraries":                                    {slog.LevelWarn, "error while loading shared libraries"},
		"":                                                                        {slog.LevelWarn, ""},
	} {
		if level, text := parseLine(line); level != want.level || text != want.text {
			t.Errorf("%q: %s %q, want %s %q", line, level, text, want.level, want.text)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	var got []time.Duration
	for _, lived := range []time.Duration{time.Hour, 0, 0, 0, steady, 0, 0} {
		got = append(got, b.after(lived)/time.Millisecond)
	}
	if want := []time.Duration{0, 100, 200, 400, 0, 100, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 100 {
		b.after(0)
	}
	if last := b.after(0); last != waitMost {
		t.Errorf("at last %v, want %v", last, waitMost)
	}
}
