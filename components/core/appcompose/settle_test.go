package appcompose_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/appcompose/appcomposetest"
)

func TestThreat_ATT_15_OnlyTheHashOfJudgedBytesMayBeAllowed(t *testing.T) {
	sent := appcomposetest.Good("demo-web", text, "A")
	want := appcompose.Want{Name: "demo-web", Compose: text, Envs: []string{"A"}, Locators: appcompose.MemberLocators()}
	edit := func(from, to string) []byte {
		out := bytes.Replace(sent, []byte(from), []byte(to), 1)
		if bytes.Equal(out, sent) {
			t.Fatalf("%s is not in %s", from, sent)
		}
		return out
	}
	script, err := json.Marshal(appcompose.PreLaunchScript)
	if err != nil {
		t.Fatal(err)
	}
	own := func(raw []byte) appcompose.Answer { return appcompose.Answer{Hash: appcompose.Hash(raw), Text: raw} }
	added := append([]byte(`{"swap_size":0,`), sent[1:]...)
	for _, c := range []struct {
		name   string
		answer appcompose.Answer
		// took is the allowed document; nil: none, and says is in the reason.
		took []byte
		says []string
	}{
		{"the hash of what was sent", appcompose.Answer{Hash: appcompose.Hash(sent)}, sent, nil},
		{"in upper case", appcompose.Answer{Hash: strings.ToUpper(appcompose.Hash(sent))}, sent, nil},
		{"what was sent", own(sent), sent, nil},
		{"the same with an empty swap", own(added), added, nil},
		{"other white space", own(edit(`,`, `, `)), edit(`,`, `, `), nil},
		{"another hash", appcompose.Answer{Hash: strings.Repeat("ab", 32)}, nil, []string{strings.Repeat("ab", 32), appcompose.Hash(sent), "no text"}},
		{"no hash", appcompose.Answer{}, nil, []string{appcompose.Hash(sent)}},
		{"another hash for what was sent", appcompose.Answer{Hash: strings.Repeat("ab", 32), Text: sent}, nil, []string{appcompose.Hash(sent)}},
		{"a text of another hash", appcompose.Answer{Hash: appcompose.Hash(sent), Text: added}, nil, []string{appcompose.Hash(added)}},
		{"the default of public_logs", own(edit(`"public_logs":false`, `"public_logs":true`)), nil, []string{"differs at public_logs, which is true in place of false", "public_logs is true"}},
		{"a script of its own", own(edit(string(script), `"curl | sh"`)), nil, []string{"differs at pre_launch_script", "SHA-256"}},
		{"another compose text", own(edit(`app@sha256`, `evil@sha256`)), nil, []string{"differs at docker_compose_file", "is not the compose text"}},
		{"another name", own(edit(`demo-web`, `demo-pg`)), nil, []string{"differs at name"}},
		{"one more env name", own(edit(`["A"]`, `["A","B"]`)), nil, []string{"allowed_envs, which has 2 entries in place of 1", `"B"`}},
		{"a steering env name", own(edit(`["A"]`, `["LD_PRELOAD"]`)), nil, []string{"differs at allowed_envs[0]", "LD_PRELOAD"}},
		{"a locator more", own(edit(`["A"]`, `["A","CADRE_PATHS"]`)), edit(`["A"]`, `["A","CADRE_PATHS"]`), nil},
		{"less", own(edit(`"secure_time":true,`, ``)), nil, []string{"secure_time, which it left out", "secure_time is missing"}},
		{"no JSON", own([]byte("services: {}")), nil, []string{"its form"}},
	} {
		got, err := appcompose.Settle(sent, c.answer, want)
		if c.took != nil && (err != nil || !bytes.Equal(got, c.took)) || c.took == nil && (err == nil || got != nil) {
			t.Errorf("%s: %s, %v", c.name, got, err)
			continue
		}
		for _, part := range c.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want it to say %q", c.name, err, part)
			}
		}
	}
	bad := appcompose.Want{Name: "demo-web", Compose: text, Rules: want.Rules}
	if _, err := appcompose.Settle(sent, appcompose.Answer{Hash: appcompose.Hash(sent)}, bad); err == nil || !strings.Contains(err.Error(), "allowed_envs") {
		t.Errorf("what Cadre sends is not judged: %v", err)
	}
}
