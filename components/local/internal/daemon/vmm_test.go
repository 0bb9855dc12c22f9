package daemon

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"cadre.dev/attest"
	"cadre.dev/attest/collateral"
	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

func onVMM(cfg *Config) {
	cfg.Platform, cfg.Hosts = VMM, []Host{{Name: "host-a"}, {Name: "host-b"}}
}

// rpc calls a method of a host.
func (s *site) rpc(host, method string, body any) obj {
	s.Helper()
	at := slices.IndexFunc(s.file.Hosts, func(h HostFile) bool { return h.Name == host })
	text, err := json.Marshal(body)
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.file.Hosts[at].URL+"/prpc/"+method+"?json", strings.NewReader(string(text)))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.file.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	out := obj{}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != 200 {
		s.Fatalf("%s = %d %v, %v", method, resp.StatusCode, out, err)
	}
	return out
}

// vm waits until good holds for a VM.
func (s *site) vm(host, id, what string, good func(obj) bool) obj {
	s.Helper()
	var v obj
	s.until(what, func() bool {
		v, _ = s.rpc(host, "GetInfo", obj{"id": id})["info"].(obj)
		return good(v)
	})
	return v
}

func vmUp(v obj) bool { return v["status"] == "running" && v["boot_progress"] == "done" }

// claims verifies a quote of a VM.
func (s *site) claims(id string) policy.Claims {
	s.Helper()
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	data := make([]byte, 64)
	out := s.local(200, "POST", "/cvms/"+id+"/exec", obj{"service": "tls", "command": []string{self, "helper-quote", hex.EncodeToString(data)}})
	var ev attest.Evidence
	if err := json.Unmarshal([]byte(out["stdout"].(string)), &ev); err != nil {
		s.Fatalf("%v: %v", out, err)
	}
	pccs, err := collateral.NewPCCS(collateral.PCCSConfig{URL: s.file.PCCSURL})
	if err != nil {
		s.Fatal(err)
	}
	defer pccs.Close()
	verifier, err := attest.NewVerifier(attest.VerifierConfig{RootsPEM: []byte(s.file.RootPEM), Collateral: pccs})
	if err != nil {
		s.Fatal(err)
	}
	claims, err := verifier.Verify(s.Context(), ev, [64]byte(data))
	if err != nil {
		s.Fatal(err)
	}
	return claims
}

func TestVMsOfHostsForReal(t *testing.T) {
	var allowed atomic.Bool
	var asked atomic.Value
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var info map[string]any
		_ = json.NewDecoder(r.Body).Decode(&info)
		asked.Store(info)
		_, _ = fmt.Fprintf(w, `{"isAllowed": %v, "reason": "compose hash not allowed", "gatewayAppId": ""}`, allowed.Load())
	}))
	defer webhook.Close()
	dir := t.TempDir()
	s := start(t, dir, onVMM, func(cfg *Config) { cfg.Settings.KMSAuth = webhook.URL })
	want := "vmm:host-a=" + s.file.Hosts[0].URL + ",host-b=" + s.file.Hosts[1].URL
	if s.file.Platform != VMM || s.file.APIURL != want || s.file.APIURLInCVM != "vmm:host-a=http://10.213.0.1:8101,host-b=http://10.213.0.1:8102" {
		t.Errorf("cloud.json names %s, %s and %s, want %s", s.file.Platform, s.file.APIURL, s.file.APIURLInCVM, want)
	}
	document, err := appcompose.Render("real", fmt.Sprintf(demo, "one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	request := obj{"name": "real", "image": "dstack-0.5.7", "compose_file": string(document), "vcpu": 2, "memory": 4096, "disk_size": 20}
	first, _ := s.rpc("host-a", "CreateVm", request)["id"].(string)

	t.Run("without a permission the guest has no keys and no disk", func(t *testing.T) {
		v := s.vm("host-a", first, "the boot fails", func(v obj) bool { return v["status"] == "exited" })
		if !strings.Contains(v["boot_error"].(string), "Boot denied: compose hash not allowed") || v["boot_progress"] != "requesting app keys" || v["instance_id"] != nil {
			t.Errorf("a guest without keys: %v", v)
		}
		info, _ := asked.Load().(map[string]any)
		if info["composeHash"] != appcompose.Hash(document) || info["appId"] != v["app_id"] || info["tcbStatus"] != "UpToDate" || len(info["deviceId"].(string)) != 64 || info["attestationMode"] != "dstack-tdx" {
			t.Errorf("the webhook was asked about %v", info)
		}
		if files, _ := os.ReadDir(filepath.Join(dir, "cvms", first, "disk")); len(files) > 0 {
			t.Errorf("the disk of a guest without keys has %v", files)
		}
	})
	t.Run("with a permission it boots at the host's next look", func(t *testing.T) {
		allowed.Store(true)
		s.local(200, "PATCH", "/settings", obj{"auto_restart": "100ms"})
		s.vm("host-a", first, "it is up", vmUp)
		s.local(400, "PATCH", "/settings", obj{"kms_auth": "nothing"})
	})
	second, _ := s.rpc("host-b", "CreateVm", request)["id"].(string)
	s.vm("host-b", second, "it is up", vmUp)
	t.Run("quotes name the machine of the host", func(t *testing.T) {
		a, b := s.claims(first), s.claims(second)
		if a.Machine == "" || a.Machine == b.Machine || a.ComposeHash != appcompose.Hash(document) || a.InstanceID == b.InstanceID {
			t.Errorf("claims of two hosts: %+v and %+v", a, b)
		}
		if m := s.file.Images["dstack-0.5.7"]; !slices.ContainsFunc(m, func(m policy.Measurement) bool { return m.RTMR0 == a.RTMR0 }) {
			t.Errorf("RTMR0 %s of a known shape is not among %v", a.RTMR0, m)
		}
	})
	t.Run("programs in CVMs reach each endpoint with the token", func(t *testing.T) {
		for token, want := range map[string]string{s.file.APIKey: "200", "x": "401"} {
			text := "curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer " + token + "' -d '{}' 'http://10.213.0.1:8102/prpc/Status?json'"
			if out, code := s.exec(first, "", text); code != 0 || out != want {
				t.Errorf("with token %.4s: %q, %d", token, out, code)
			}
		}
	})
	t.Run("a host without power comes back with its VMs and their disks", func(t *testing.T) {
		s.local(200, "POST", "/hosts/host-a/kill", nil)
		if got := s.local(200, "GET", "/cvms/"+first, nil); got["status"] != "exited" || got["host"] != "host-a" {
			t.Errorf("a VM of a host without power: %v", got)
		}
		s.local(200, "POST", "/hosts/host-a/return", nil)
		s.vm("host-a", first, "it is up again", vmUp)
		if got, _ := s.exec(first, "shell", "cat /data/log"); got != "one\none" {
			t.Errorf("its disk has %q", got)
		}
	})
	t.Run("a change waits for the stop and keeps the disk", func(t *testing.T) {
		next, err := appcompose.Render("real", fmt.Sprintf(demo, "two"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.rpc("host-b", "ShutdownVm", obj{"id": second})
		s.vm("host-b", second, "it has stopped", func(v obj) bool { return v["status"] == "stopped" })
		s.rpc("host-b", "UpdateVm", obj{"id": second, "compose_file": string(next), "image": "dstack-0.5.11"})
		s.rpc("host-b", "StartVm", obj{"id": second})
		s.vm("host-b", second, "it is up again", vmUp)
		if got, _ := s.exec(second, "shell", "cat /data/log; grep -c bye /own/log"); got != "one\ntwo\n1" {
			t.Errorf("its disk has %q", got)
		}
	})
	old := s.file
	s.stop()
	t.Run("a restart keeps addresses and hosts", func(t *testing.T) {
		log, self := &strings.Builder{}, "/proc/self/exe"
		for _, hosts := range [][]Host{nil, {{Name: "host-b"}, {Name: "host-a"}}, {{Name: "host-a"}}} {
			cfg := config(dir, self, log)
			cfg.Platform, cfg.Hosts = VMM, hosts
			if err := Serve(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), "host-a") {
				t.Errorf("a start with hosts %v: %v", hosts, err)
			}
		}
		s := start(t, dir, onVMM, func(cfg *Config) { cfg.Hosts = append(cfg.Hosts, Host{Name: "host-c"}) })
		if s.file.Hosts[0] != old.Hosts[0] || s.file.Hosts[1] != old.Hosts[1] || len(s.file.Hosts) != 3 {
			t.Errorf("hosts %v became %v", old.Hosts, s.file.Hosts)
		}
		s.vm("host-a", first, "the first VM is up", vmUp)
		s.rpc("host-a", "RemoveVm", obj{"id": first})
		s.vm("host-a", first, "it is gone", func(v obj) bool { return v == nil })
		if _, err := os.Stat(filepath.Join(dir, "cvms", first)); !os.IsNotExist(err) {
			t.Errorf("the folder of a removed VM: %v", err)
		}
	})
}

func TestHostsAreNamed(t *testing.T) {
	for text, good := range map[string]bool{
		"host-a": true, "host-a,host-b": true, " a , b ": true, "a=127.0.0.1:8001,b": true,
		"": false, "a,": false, "a,a": false, "A": false, "a@eu": false, "a b": false, strings.Repeat("a", 33): false,
	} {
		if _, err := ParseHosts(text); (err == nil) != good {
			t.Errorf("ParseHosts(%q): %v", text, err)
		}
	}
	hosts, err := ParseHosts("a=127.0.0.1:8001,b")
	if err != nil || hosts[0].Listen != "127.0.0.1:8001" || hosts[1].Listen != "" {
		t.Errorf("hosts %v, %v", hosts, err)
	}
}

func TestAHostsAddressThatIsTakenNamesItsFlag(t *testing.T) {
	taken := opened(t, hostAddress{want: anyPort})
	_, err := hostAddress{name: "endpoint of host-a", flag: "hosts host-a", want: anyPort, had: taken, hasCVMs: true}.listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--hosts host-a=127.0.0.1:PORT") || !strings.Contains(err.Error(), "`cadre local up --hosts ...`") {
		t.Errorf("no way out: %v", err)
	}
}
