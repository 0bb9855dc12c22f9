package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/attest/dstacksdk"
	"cadre.dev/client"
	"cadre.dev/core/operation"
)

// bought is the group that takes the app of an official client over.
const bought = "bought"

type obj = map[string]any

// official sends one request as an official client does, and fails on another answer than want.
func (c *cluster) official(t *testing.T, want int, method, path string, body any) obj {
	t.Helper()
	out, code, err := c.ask(within(t, time.Minute), method, path, body)
	if err != nil || code != want {
		t.Fatalf("%s %s: %d, want %d: %v %v", method, path, code, want, out, err)
	}
	return out
}

func (c *cluster) ask(ctx context.Context, method, path string, body any) (out obj, code int, err error) {
	facts, err := c.Cloud()
	if err != nil {
		return nil, 0, err
	}
	text, isText := body.(json.RawMessage)
	if !isText && body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, 0, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, facts.APIURL+path, bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	req.Header = http.Header{"X-Api-Key": {facts.APIKey}, "Content-Type": {"application/json"}, "X-Phala-Version": {"2025-10-28"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || len(raw) == 0 {
		return nil, resp.StatusCode, err
	}
	return out, resp.StatusCode, json.Unmarshal(raw, &out)
}

// running waits until the platform has finished its operation on the CVM, and returns the CVM.
func (c *cluster) running(t *testing.T, cvm string) (v obj) {
	t.Helper()
	eventually(t, cvm+" runs", rollTime, func(ctx context.Context) error {
		var code int
		var err error
		if v, code, err = c.ask(ctx, http.MethodGet, "/cvms/"+cvm, nil); err != nil {
			return err
		}
		if code != http.StatusOK || v["status"] != "running" || v["in_progress"] == true {
			return fmt.Errorf("%d, status %v", code, v["status"])
		}
		return nil
	})
	return v
}

// adoptable waits until the group's only member can be adopted, or cannot with this text.
func (c *cluster) adoptable(t *testing.T, missing string) {
	t.Helper()
	eventually(t, "the member is adoptable but for "+fmt.Sprintf("%q", missing), rollTime, func(ctx context.Context) error {
		list, err := c.api.Adoptable(ctx, bought)
		if err == nil && (len(list) != 1 || !strings.Contains(list[0].Missing, missing) || missing == "" && list[0].Missing != "") {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
}

// TestAnAppOfAnOfficialClientIsTakenOver goes the whole way of docs/guides/from-phala-app.md: an app that
// `phala deploy` made, with no agent in it, gets the document of a group by two calls, its agent
// attests, the group adopts it, and the next change is a rollout. The disk stays. Its guest image is
// 0.6 and its document names the key provider, so MRCONFIGID is that of a document of version 3.
func TestAnAppOfAnOfficialClientIsTakenOver(t *testing.T) {
	c := ready(t)
	cvm := c.PlatformName(bought + "-0")
	t.Cleanup(func() { c.forget(t, cvm) })
	images, err := c.ImageVars("light")
	if err != nil {
		t.Fatal(err)
	}
	_, light, _ := strings.Cut(images[1], "=")

	// The requests of npm phala 1.1.18, as it sends them for `phala deploy -n NAME -c FILE -t tdx.small
	// --image IMAGE --disk-size 20G -e TOKEN=value`.
	slug := ""
	for _, image := range c.official(t, http.StatusOK, http.MethodGet, "/os-images", nil)["items"].([]any) {
		if i := image.(obj); i["name"] == guest06 {
			slug = i["slug"].(string)
		}
	}
	made := c.official(t, http.StatusOK, http.MethodPost, "/cvms/provision", obj{
		"name": cvm, "instance_type": "tdx.small", "image": slug, "disk_size": 20, "listed": false, "kms": "PHALA",
		"compose_file": obj{
			"allowed_envs": []string{"TOKEN"}, "name": "", "public_logs": true, "public_sysinfo": true,
			"docker_compose_file": `services:
  web:
    image: ` + light + `
    network_mode: host
    volumes: [visitors:/var/lib/web]
    command: [sh, -c, "echo made by another client > /var/lib/web/mark; exec python3 -m http.server 8080"]
volumes: {visitors: {}}
`,
		},
	})
	c.official(t, http.StatusOK, http.MethodPost, "/cvms", obj{
		"app_id": made["app_id"], "compose_hash": made["compose_hash"], "encrypted_env": sealed(t, made, map[string]string{"TOKEN": "value"}),
	})
	first := c.running(t, cvm)
	c.wantMark(t, cvm)

	// Step 1: the group is planned, and Cadre touches nothing.
	apply := func() {
		t.Helper()
		file := c.edited(t, `group "light"`, `group "`+bought+`"`, "replicas = var.replicas", "replicas = 1", `"dstack-0.5.7"`, `"`+guest06+`"`)
		if _, err := c.ApplyLight(within(t, rollTime), file, c.next()); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	c.adoptable(t, "its agent has attested nothing yet")
	if out, err := c.Cadre(within(t, time.Minute), "rollout", "plan", bought); err != nil || !strings.Contains(out, "unmanaged_instance") {
		t.Errorf("the plan does not say that the slot is unmanaged: %v\n%s", err, out)
	}

	// Step 2 and 3: the group's document, written by another client with the key provider in it.
	text, err := c.Cadre(within(t, time.Minute), "admission", "app-compose", bought+"#1")
	if err != nil {
		t.Fatal(err)
	}
	document := obj{}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	document["key_provider_id"] = c.keyProvider(t)
	sent, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(sent)
	next := c.official(t, http.StatusOK, http.MethodPost, "/cvms/"+cvm+"/compose_file/provision", json.RawMessage(sent))
	if next["compose_hash"] != hex.EncodeToString(sum[:]) {
		t.Fatalf("the platform would measure %v, not the document that was sent", next["compose_hash"])
	}
	c.official(t, http.StatusAccepted, http.MethodPatch, "/cvms/"+cvm+"/compose_file", obj{"compose_hash": next["compose_hash"]})
	c.running(t, cvm)

	// Step 4: the values of the env, as `phala envs update` sends them.
	g, err := c.api.Group(within(t, time.Minute), bought)
	if err != nil {
		t.Fatal(err)
	}
	env := g.Spec.Template.Env
	c.official(t, http.StatusAccepted, http.MethodPatch, "/cvms/"+cvm+"/envs", obj{
		"encrypted_env": sealed(t, made, env), "env_keys": slices.Sorted(maps.Keys(env)),
	})
	c.running(t, cvm)
	c.adoptable(t, "")
	before := c.look(t)
	if out, err := c.Cadre(within(t, rollTime), "group", "adopt", bought, "--reason", "it moves to Cadre", "--confirm", bought, "--wait"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if is := c.look(t); is.calls != before.calls {
		t.Errorf("%d calls of the platform for the adoption", is.calls-before.calls)
	}
	slot := bought + "-0"
	described, err := c.api.Instance(within(t, time.Minute), slot)
	if err != nil {
		t.Fatal(err)
	}
	if described.Status.State != client.StateAvailable || len(described.Admissions) == 0 {
		t.Fatalf("%s is %s: %s", slot, described.Status.State, described.Status.Reason)
	}
	if admitted := described.Admissions[0]; admitted.Code != "" || admitted.Claims.ComposeHash != next["compose_hash"] || "instance_"+admitted.InstanceID != first["instance_id"] && admitted.InstanceID != first["instance_id"] {
		t.Errorf("admitted with %+v; want compose hash %v of instance %v", admitted, next["compose_hash"], first["instance_id"])
	}
	if version := c.quoted(t, cvm)[mrConfigID]; version != 3 {
		t.Errorf("MRCONFIGID of the admitted guest has version %d, want 3", version)
	}

	c.refusesForeignConfig(t, cvm, slot)

	// The next change is a rollout, with a document that Cadre writes.
	before = c.look(t)
	apply()
	v, err := c.Follow(within(t, rollTime), bought, nil)
	if err != nil || v.Status.RolloutState != string(operation.Complete) || v.Status.Available != 1 {
		t.Fatalf("the rollout is %s with %d available: %s, %v", v.Status.RolloutState, v.Status.Available, v.Status.Message, err)
	}
	after := c.look(t)
	if got := after.updates[cvm] - before.updates[cvm]; got != 1 || after.cvms[cvm].VMUUID != before.cvms[cvm].VMUUID {
		t.Errorf("%d updates, CVM %s, was %s", got, after.cvms[cvm].VMUUID, before.cvms[cvm].VMUUID)
	}
	if version := c.quoted(t, cvm)[mrConfigID]; version != 1 {
		t.Errorf("MRCONFIGID with a document of Cadre's has version %d, want 1", version)
	}
	c.wantMark(t, cvm)
}

// guest06 is the guest image 0.6 of the local cloud.
const guest06 = "dstack-0.6.0"

// mrConfigID is where MRCONFIGID begins in a quote, with its version.
const mrConfigID = 232

// refusesForeignConfig restarts the guest with a quote whose MRCONFIGID is that of another document: its agent
// refuses it and no boot is admitted. The next boot has the document's own and is admitted.
func (c *cluster) refusesForeignConfig(t *testing.T, cvm, slot string) {
	t.Helper()
	boots := c.look(t).cvms[cvm].Boots
	was, err := c.admittedBoot(within(t, time.Minute), slot)
	if err != nil {
		t.Fatal(err)
	}
	restart := func(foreign bool) {
		t.Helper()
		if err := c.Evidence(within(t, time.Minute), cvm, fmt.Sprintf(`{"ForeignConfig":%t}`, foreign)); err != nil {
			t.Fatal(err)
		}
		c.official(t, http.StatusOK, http.MethodPost, "/cvms/"+cvm+"/restart", nil)
		c.running(t, cvm)
	}
	// Paused, Cadre leaves the refused guest as it is.
	if _, err := c.api.SetOverride(within(t, time.Minute), client.OverridePause, bought, 0, "a test looks"); err != nil {
		t.Fatal(err)
	}
	restart(true)
	// The agent judges the evidence of its own guest before it asks anyone.
	if err := c.AwaitLines(within(t, rollTime), 0, cvm, "cadre", string(attest.CodeTDAttributesForbidden), "MRCONFIGID 03"); err != nil {
		t.Fatal(err)
	}
	if is, err := c.admittedBoot(within(t, time.Minute), slot); err != nil || is != was {
		t.Errorf("%s: boot %s was admitted with a foreign MRCONFIGID, %v", slot, is, err)
	}
	restart(false)
	if is := c.look(t).cvms[cvm].Boots; is != boots+2 {
		t.Errorf("%d boots, want %d", is, boots+2)
	}
	if _, err := c.api.ClearOverride(within(t, time.Minute), client.OverridePause, bought); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the boot with its own MRCONFIGID is admitted", rollTime, func(ctx context.Context) error {
		is, err := c.admittedBoot(ctx, slot)
		if err == nil && is == was {
			err = fmt.Errorf("boot %s, of before the restarts, is the last one", is)
		}
		return err
	})
}

// admittedBoot is the Boot of the Slot that was admitted last.
func (c *cluster) admittedBoot(ctx context.Context, slot string) (string, error) {
	described, err := c.api.Instance(ctx, slot)
	if err != nil {
		return "", err
	}
	for _, d := range described.Admissions {
		if d.Code == "" {
			return d.BootID, nil
		}
	}
	return "", fmt.Errorf("no boot of %s was admitted", slot)
}

// sealed is env for the app of a provision reply, as a client encrypts it.
func sealed(t *testing.T, made obj, env map[string]string) string {
	t.Helper()
	key, err := hex.DecodeString(made["app_env_encrypt_pubkey"].(string))
	if err != nil {
		t.Fatal(err)
	}
	text, err := dstacksdk.SealEnv(key, env)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// keyProvider is the id of the cloud's key provider, which a trust file pins.
func (c *cluster) keyProvider(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(c.CloudFile())
	if err != nil {
		t.Fatal(err)
	}
	var facts struct {
		KeyProvider struct {
			ID string `json:"id"`
		} `json:"key_provider"`
	}
	if err := json.Unmarshal(text, &facts); err != nil || facts.KeyProvider.ID == "" {
		t.Fatalf("cloud.json names no key provider: %v", err)
	}
	return facts.KeyProvider.ID
}

// quoted is a quote of the CVM's guest agent.
func (c *cluster) quoted(t *testing.T, cvm string) []byte {
	t.Helper()
	const ask = `import http.client, socket
class Guest(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/dstack.sock")
guest = Guest("guest")
guest.request("POST", "/GetQuote", '{"report_data":"00"}', {"Content-Type": "application/json"})
print(guest.getresponse().read().decode())`
	out, err := c.Exec(within(t, time.Minute), cvm, "", "python3", "-c", ask)
	if err != nil {
		t.Fatalf("ask the guest agent for a quote: %v: %s", err, out)
	}
	var reply struct {
		Quote string `json:"quote"`
	}
	if err := json.Unmarshal([]byte(out), &reply); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	quote, err := hex.DecodeString(reply.Quote)
	if err != nil || len(quote) <= mrConfigID {
		t.Fatalf("%d bytes of a quote: %v", len(quote), err)
	}
	return quote
}

// wantMark checks that the file is there that the official client's app wrote on its disk.
func (c *cluster) wantMark(t *testing.T, cvm string) {
	t.Helper()
	eventually(t, "the app's mark is on the disk", time.Minute, func(ctx context.Context) error {
		out, err := c.Exec(ctx, cvm, "web", "cat", "/var/lib/web/mark")
		if err == nil && strings.TrimSpace(out) != "made by another client" {
			err = fmt.Errorf("the disk says %q", out)
		}
		return err
	})
}

// forget removes the group and its CVM, in any state after a test.
func (c *cluster) forget(t *testing.T, cvm string) {
	ctx, cancel := context.WithTimeout(context.Background(), rollTime)
	defer cancel()
	if _, err := c.Cadre(ctx, "group", "delete", bought, "--delete-disks", "--reason", "the test is over", "--confirm", bought, "--wait"); err == nil {
		return
	}
	if _, code, err := c.ask(ctx, http.MethodDelete, "/cvms/"+cvm, nil); err != nil || code/100 != 2 && code != http.StatusNotFound {
		t.Errorf("%s is left: %d, %v", cvm, code, err)
	}
}
