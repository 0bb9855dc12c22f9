package attest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

// quoter is a guest agent that quotes any given data, in a CVM with compose.
type quoter struct {
	t       *testing.T
	compose string
	envs    []string
	// hash is measured; nil: that of the app-compose.
	hash  []byte
	stale bool
	// timeOff: the guest does not wait for authenticated time.
	timeOff bool
	calls   int
	fail    error
}

func (q *quoter) appCompose() []byte {
	raw, err := json.Marshal(map[string]any{
		"manifest_version": 2, "runner": "docker-compose", "docker_compose_file": q.compose, "kms_enabled": true, "secure_time": !q.timeOff, "init_script": appcompose.InitScript, "allowed_envs": q.envs,
	})
	if err != nil {
		q.t.Fatal(err)
	}
	return raw
}

func (q *quoter) GetQuote(_ context.Context, data []byte) (Evidence, error) {
	if q.calls++; q.fail != nil {
		return Evidence{}, q.fail
	}
	f := newFake(q.t)
	f.compose = q.appCompose()
	hash := sha256.Sum256(f.compose)
	if q.hash == nil {
		q.hash = hash[:]
	}
	f.events = bootEvents(q.hash)
	if !q.stale {
		copy(f.report.ReportData[:], data)
	}
	return f.evidence(q.t), nil
}

func (q *quoter) GetKey(context.Context, string, string) ([]byte, error) {
	return nil, errors.New("no")
}
func (q *quoter) Info(context.Context) (Info, error) { return Info{}, errors.New("no") }

func TestATT02_ATT17_TheTrustFileMustBeMeasured(t *testing.T) {
	trust := string(trustFile(t, openCloud(t).RootPEM(), nil))
	timeOff := string(trustFile(t, openCloud(t).RootPEM(), func(f map[string]any) { f["secure_time_off"] = true }))
	quoted := func(s string) string { return "configs:\n  trust:\n    content: '" + s + "'\n" }
	for name, c := range map[string]struct {
		compose string
		trust   string
		change  func(*quoter)
		good    bool
	}{
		"in a config":           {compose: quoted(trust), good: true},
		"among others":          {compose: "services: {}\nconfigs:\n  a: {content: x}\n  b: {environment: Y}\n  trust:\n    content: '" + trust + "'\n", good: true},
		"as a block":            {compose: "configs:\n  trust:\n    content: |-\n      " + trust + "\n", good: true},
		"one byte more":         {compose: quoted(trust), trust: trust + "\n"},
		"another file":          {compose: quoted(trust), trust: string(trustFile(t, nil, nil))},
		"empty":                 {compose: quoted(""), trust: "\x00"},
		"nothing measured":      {compose: "services: {}\n"},
		"in a comment":          {compose: "# " + trust + "\nservices: {}\n"},
		"in a label":            {compose: "services:\n  a:\n    labels:\n      content: '" + trust + "'\n"},
		"in the environment":    {compose: "configs:\n  trust:\n    environment: '" + trust + "'\n"},
		"as a part":             {compose: quoted(trust + " ")},
		"from the environment":  {compose: quoted("${TRUST}"), trust: "${TRUST}"},
		"no YAML":               {compose: "\t:"},
		"another hash measured": {compose: quoted(trust), change: func(q *quoter) { q.hash = make([]byte, 32) }},
		"the environment chooses the compose file": {compose: quoted(trust), change: func(q *quoter) { q.envs = []string{"COMPOSE_FILE"} }},
		"a quote of before":                        {compose: quoted(trust), change: func(q *quoter) { q.stale = true }},
		"ATT-29 no secure time":                    {compose: quoted(trust), change: func(q *quoter) { q.timeOff = true }},
		"ATT-29 no secure time, by choice":         {compose: quoted(timeOff), trust: timeOff, change: func(q *quoter) { q.timeOff = true }, good: true},
		"ATT-29 secure time in spite of it":        {compose: quoted(timeOff), trust: timeOff, good: true},
	} {
		q := &quoter{t: t, compose: c.compose, envs: []string{"CADRE_GATEWAY_DOMAIN"}}
		if c.change != nil {
			c.change(q)
		}
		if c.trust == "" {
			c.trust = trust
		}
		text, err := CheckMeasured(context.Background(), q, []byte(c.trust), "")
		if c.good && text != q.compose || !c.good && text != "" {
			t.Errorf("%s: compose text %q", name, text)
		}
		if c.good != (err == nil) || !c.good && codeOf(err) != policy.CodeConfigUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := CheckMeasured(context.Background(), &quoter{t: t}, nil, ""); codeOf(err) != policy.CodeConfigUnauthenticated {
		t.Errorf("no trust file: %v", err)
	}
	// An unavailable agent is no rejection.
	q := &quoter{t: t, fail: errors.New("connection refused")}
	if _, err := CheckMeasured(context.Background(), q, []byte(trust), ""); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.HasPrefix(string(codeOf(err)), "CONFIG") {
		t.Errorf("no guest agent: %v", err)
	}
}

// TestATT36_AProcessOfAnEarlierRevisionIsRefused: its trust file may well be the same.
func TestATT36_AProcessOfAnEarlierRevisionIsRefused(t *testing.T) {
	const trust = `{"cluster":"demo"}`
	text := "services:\n  cadre:\n    image: a\n    command: [--revision-mark=" + appcompose.MarkPlace + "]\nconfigs:\n  trust:\n    content: '" + trust + "'\n"
	next := strings.Replace(text, "image: a", "image: b", 1)
	for name, c := range map[string]struct {
		measured, mark string
		good           bool
	}{
		"its own revision":    {text, appcompose.Mark(text), true},
		"the next revision":   {next, appcompose.Mark(text), false},
		"an earlier revision": {text, appcompose.Mark(next), false},
		"a process with none": {text, "", false},
		"a text without one":  {strings.Replace(text, "--revision-mark="+appcompose.MarkPlace, "", 1), appcompose.Mark(text), false},
	} {
		q := &quoter{t: t, compose: appcompose.Marked(c.measured), envs: []string{}}
		compose, err := CheckMeasured(context.Background(), q, []byte(trust), c.mark)
		if c.good != (err == nil) || (compose != "") != c.good || !c.good && (codeOf(err) != policy.CodeConfigUnauthenticated || !strings.Contains(err.Error(), "revision-mark")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
