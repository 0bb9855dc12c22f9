package appcompose

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

// TestATT24_KeysOfGuestImages06: each new key with an accepted value, and its nearest rejected
// neighbours. The closed list also rejects a value that the boot events cannot use.
func TestATT24_KeysOfGuestImages06(t *testing.T) {
	for _, c := range []struct {
		change string // members that are merged into a good document
		want   string // "" is accepted
	}{
		{`{"manifest_version":"3"}`, ""},
		{`{"manifest_version":3}`, "manifest_version is 3"},
		{`{"manifest_version":"2"}`, "manifest_version is"},
		{`{"manifest_version":"4"}`, "manifest_version is"},
		{`{"event_log_version":1}`, ""},
		{`{"event_log_version":2}`, ""},
		{`{"event_log_version":3}`, "event_log_version is 3"},
		{`{"event_log_version":"2"}`, "event_log_version is"},
		{`{"manifest_version":"3","requirements":{}}`, ""},
		{`{"requirements":{}}`, `manifest_version is not "3"`},
		{`{"manifest_version":"3","requirements":null}`, "requirements is not an object"},
		{`{"manifest_version":"3","requirements":[]}`, "requirements is not an object"},
		{`{"manifest_version":"3","requirements":{"os_version":">=0.6.0, <0.7.0","platforms":["tdx"],"tdx_measure_acpi_tables":true,"launch_token_hash":"` + strings.Repeat("ab", 32) + `"}}`, ""},
		{`{"manifest_version":"3","requirements":{"os_version":"$(id)"}}`, "requirements.os_version"},
		{`{"manifest_version":"3","requirements":{"os_version":6}}`, "requirements.os_version"},
		{`{"manifest_version":"3","requirements":{"platforms":["amd-sev-snp"]}}`, "does not name tdx"},
		{`{"manifest_version":"3","requirements":{"tdx_measure_acpi_tables":false}}`, "tdx_measure_acpi_tables"},
		{`{"manifest_version":"3","requirements":{"launch_token_hash":"abcd"}}`, "launch_token_hash"},
		{`{"manifest_version":"3","requirements":{"skip_checks":true}}`, "requirements.skip_checks is not on the list"},
		{`{"manifest_version":"3","requirements":{"gpu_policy":{}}}`, ""},
		{`{"manifest_version":"3","requirements":{"gpu_policy":{"attest_gpu":true,"allow_debug":false}}}`, ""},
		{`{"manifest_version":"3","requirements":{"gpu_policy":{"attest_gpu":false}}}`, "attest_gpu is false"},
		{`{"manifest_version":"3","requirements":{"gpu_policy":{"allow_debug":true}}}`, "allow_debug is true"},
		{`{"manifest_version":"3","requirements":{"gpu_policy":{"rego":"package policy"}}}`, "gpu_policy.rego"},
		{`{"manifest_version":"3","requirements":{"gpu_policy":null}}`, "gpu_policy is not an object"},
		{`{"port_policy":{"ports":[{"port":443,"pp":true},{"port":80}],"restrict_mode":true}}`, ""},
		{`{"port_policy":{"ports":[{"port":0}]}}`, "ports[0].port"},
		{`{"port_policy":{"ports":[{"pp":true}]}}`, "ports[0].port"},
		{`{"port_policy":{"ports":[{"port":70000}]}}`, "port_policy.ports"},
		{`{"port_policy":{"ports":[{"port":443,"host":"x"}]}}`, "port_policy.ports"},
		{`{"port_policy":{"restrict_mode":1}}`, "restrict_mode is 1"},
		{`{"port_policy":{"open":true}}`, "port_policy.open"},
		{`{"salt":"a1-B_2"}`, ""},
		{`{"salt":"a b"}`, "salt"},
		{`{"salt":""}`, "salt"},
		{`{"salt":1}`, "salt is not a text"},
		{`{"default_gateway_domain":"gw.dstack-prod9.phala.network"}`, ""},
		{`{"default_gateway_domain":"$(id).example.com"}`, "default_gateway_domain"},
		{`{"default_gateway_domain":"localhost"}`, "default_gateway_domain"},
		{`{"default_gateway_domain":"a..example.com"}`, "default_gateway_domain"},
		{`{"default_gateway_domain":"example.com\n"}`, "default_gateway_domain"},
		{`{"init_script":7}`, "init_script"},
		{`{"init_script":[7]}`, "init_script"},
		{`{"init_script":[null]}`, "init_script"},
		{`{"snapshotter":"stargz"}`, "snapshotter"},
		{`{"gpu_policy":{}}`, "gpu_policy"},
	} {
		doc := map[string]any{"manifest_version": 2, "name": "n", "runner": "docker-compose", "docker_compose_file": "services: {}", "kms_enabled": true, "secure_time": true, "init_script": InitScript}
		var change map[string]any
		if err := json.Unmarshal([]byte(c.change), &change); err != nil {
			t.Fatal(err)
		}
		for k, v := range change {
			doc[k] = v
		}
		raw, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := Judge(raw, Rules{})
		got := Texts(problems)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.change, got, c.want)
		}
		if _, err := ReadMeasured(raw); err != nil && got == "" {
			t.Errorf("%s: the boot events cannot be read (%v), and the document is accepted", c.change, err)
		}
	}
}

// TestMeasurementsOfAGuestImage06 uses the vectors of dstack's own tests. An empty policy and an
// absent one are the same.
func TestMeasurementsOfAGuestImage06(t *testing.T) {
	const empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // SHA-256 of {}
	for doc, want := range map[string]string{
		`{}`: empty, `{"requirements":{}}`: empty, `{"requirements":{"gpu_policy":{}}}`: empty,
		`{"requirements":{"gpu_policy":{"attest_gpu":true,"allow_debug":false}}}`:    hex.EncodeToString(sum(`{"allow_debug":false,"attest_gpu":true}`)),
		`{"requirements":{"gpu_policy":{ "allow_debug": false, "attest_gpu":true}}}`: hex.EncodeToString(sum(`{"allow_debug":false,"attest_gpu":true}`)),
	} {
		m, err := ReadMeasured([]byte(doc))
		if err != nil || hex.EncodeToString(m.GPUPolicy[:]) != want || m.EventLogVersion != 1 || len(m.InitScripts) != 0 {
			t.Errorf("%s: %x, %v; want %s", doc, m.GPUPolicy, err, want)
		}
	}
	for doc, want := range map[string][]string{
		`{"init_script":null}`: {}, `{"init_script":[]}`: {}, `{"init_script":""}`: {""}, `{"init_script":"a"}`: {"a"}, `{"init_script":["b","a"]}`: {"b", "a"},
	} {
		m, err := ReadMeasured([]byte(doc))
		if err != nil || len(m.InitScripts) != len(want) {
			t.Fatalf("%s: %v, %v", doc, m, err)
		}
		for i, script := range want {
			if hex.EncodeToString(m.InitScripts[i][:]) != hex.EncodeToString(sum(script)) {
				t.Errorf("%s: script %d is not %q", doc, i, script)
			}
		}
	}
}

func sum(text string) []byte {
	b, _ := hex.DecodeString(Hash([]byte(text)))
	return b
}

// TestATT17_ENVIsRefusedWithAnotherName: production programs read it, and a shell runs the named
// file.
func TestATT17_ENVIsRefusedWithAnotherName(t *testing.T) {
	if EnvNameProblem("ENV") == "" || EnvNameProblem("APP_ENV") != "" || !strings.Contains(EnvNameFix("ENV"), "APP_ENV") {
		t.Errorf("ENV: %q: %q; APP_ENV: %q", EnvNameProblem("ENV"), EnvNameFix("ENV"), EnvNameProblem("APP_ENV"))
	}
}
