package dstacksdk_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"
)

// TestWhyNotGetComposeHash: it hashes a text of its own making, from the fields
// that it knows. A guest is measured by the bytes of its app-compose.json.
func TestWhyNotGetComposeHash(t *testing.T) {
	const plain = `{"docker_compose_file":"services: {}","manifest_version":2,"name":"web","runner":"docker-compose"}`
	hash := func(text string) (measured, sdks string) {
		t.Helper()
		var known dstack.AppCompose
		if err := json.Unmarshal([]byte(text), &known); err != nil {
			t.Fatal(err)
		}
		sdks, err := dstack.GetComposeHash(known)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:]), sdks
	}
	if measured, sdks := hash(plain); measured != sdks {
		t.Errorf("%s: measured %s, the SDK says %s", plain, measured, sdks)
	}
	for name, text := range map[string]string{
		"a key that it does not know":      strings.Replace(plain, `{`, `{"allowed_ports":[22],`, 1),
		"storage_fs":                       strings.TrimSuffix(plain, "}") + `,"storage_fs":"ext4"}`,
		"an empty list":                    strings.Replace(plain, `{`, `{"allowed_envs":[],`, 1),
		"<, > and & as they stand":         strings.Replace(plain, "services: {}", "a && b", 1),
		"white space":                      plain + "\n",
		"keys in an order that it has not": `{"runner":"docker-compose","name":"web","manifest_version":2,"docker_compose_file":"services: {}"}`,
	} {
		if measured, sdks := hash(text); measured == sdks {
			t.Errorf("%s: the SDK's hash is right now", name)
		}
	}
}

// TestWhyNotReplayRTMRs: the SDK replays an unreadable log to zeros without an error, and never
// compares a log's content with the digest that counts. For logs of agents from 0.5.6 on,
// attestsim's TestLogStyles shows a wrong replay.
func TestWhyNotReplayRTMRs(t *testing.T) {
	unreadable := dstack.GetQuoteResponse{EventLog: "not JSON"}
	got, err := unreadable.ReplayRTMRs()
	if err != nil || got[3] != dstack.INIT_MR {
		t.Errorf("an unreadable log: %v, %v", got, err)
	}
	entry := func(payload string) string {
		return `[{"imr":3,"event_type":134217729,"digest":"` + strings.Repeat("ab", 48) + `","event":"compose-hash","event_payload":"` + payload + `"}]`
	}
	one, other := dstack.GetQuoteResponse{EventLog: entry("00")}, dstack.GetQuoteResponse{EventLog: entry("ff")}
	a, err := one.ReplayRTMRs()
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.ReplayRTMRs()
	if err != nil || a[3] != b[3] {
		t.Errorf("two compose hashes under one digest: %v, %v, error %v", a, b, err)
	}
}
