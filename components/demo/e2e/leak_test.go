package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/client"
	"cadre.dev/core/rollout"
	"cadre.dev/demo/internal/leak"
	"cadre.dev/demo/internal/rig"
)

// Permitted places of a canary. Consul keeps its tokens in its own state, on the coordinators'
// encrypted disks (docs/guides/secrets.md); no other secret may be there.
const mayBeConsulState = "consul state/"

// process is a process inside a CVM of this test's cloud.
type process struct {
	pid     string
	program string
}

func (p process) path(parts ...string) string {
	return filepath.Join(append([]string{"/proc", p.pid, "root"}, parts...)...)
}

// inside lists the processes of the CVMs: the processes in the network namespaces of this cloud's
// agents and coordinators. Other clouds may run on the machine.
func (c *cluster) inside(t *testing.T) (all []process, ours []process) {
	t.Helper()
	type seen struct {
		process
		net string
	}
	var every []seen
	spaces := map[string]bool{}
	pids, err := c.Pids()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range pids {
		pid := strconv.Itoa(n)
		space, err := os.Readlink(filepath.Join("/proc", pid, "ns/net"))
		if err != nil {
			continue // it has ended
		}
		exe, _ := os.Readlink(filepath.Join("/proc", pid, "exe"))
		one := seen{process{pid: pid, program: filepath.Base(exe)}, space}
		every = append(every, one)
		if name := one.program; name == "cadre-agent" || name == "cadre-coordinator" {
			spaces[space] = true
			ours = append(ours, one.process)
		}
	}
	for _, one := range every {
		if spaces[one.net] {
			all = append(all, one.process)
		}
	}
	return all, ours
}

// canaries are the present secrets, from their proper places: the memory-backed files of the CVMs,
// and the guest agent for the secrets without a file.
func (c *cluster) canaries(t *testing.T, found map[string]leak.Canary) {
	t.Helper()
	add := func(name string, value []byte, may ...string) {
		found[name+" "+hex.EncodeToString(value)[:8]] = leak.Canary{Name: name, Value: bytes.Clone(value), May: may}
	}
	_, ours := c.inside(t)
	if len(ours) < rig.Coordinators {
		t.Fatalf("only %d agents and coordinators run", len(ours))
	}
	for _, p := range ours {
		if p.program == "cadre-coordinator" {
			c.consulCanaries(t, p, add)
			c.derivedCanaries(t, p, add)
			continue
		}
		bootCanaries(t, p, add)
		add("workload's consul token", c.file(t, p, "run/mesh/consul-token"), mayBeConsulState)
		names, err := os.ReadDir(p.path("run/mesh/secrets"))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s has no secrets: %v", p.program, err)
		}
		for _, n := range names {
			add("workload secret "+n.Name(), c.file(t, p, "run/mesh/secrets", n.Name()))
		}
	}
}

func (c *cluster) file(t *testing.T, p process, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(p.path(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// consulCanaries are the secrets of a Consul process's configuration.
func (c *cluster) consulCanaries(t *testing.T, p process, add func(string, []byte, ...string)) {
	t.Helper()
	var config struct {
		Encrypt string
		ACL     struct{ Tokens map[string]string }
	}
	if err := json.Unmarshal(c.file(t, p, "run/cadre/consul/consul.json"), &config); err != nil {
		t.Fatal(err)
	}
	add("gossip key", []byte(config.Encrypt))
	for name, token := range config.ACL.Tokens {
		add("consul's "+name+" token", []byte(token), mayBeConsulState)
	}
	for _, name := range []string{"key.pem", "consul-key.pem"} {
		text, err := os.ReadFile(p.path("run/cadre/consul", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		block, _ := pem.Decode(text)
		if err != nil || block == nil {
			t.Fatalf("%s: %v", name, err)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		scalar, err := key.(*ecdsa.PrivateKey).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		add("consul's TLS key", scalar)
	}
}

// pkcs8 is the prefix of a P-256 private key in PKCS #8, and keySize the length of one.
const (
	pkcs8   = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b0201010420"
	keySize = 138
)

// sealPurpose is the purpose of the agent's derived key that seals its Boot's credentials.
const sealPurpose = "cadre credentials v1"

const bootKey = "boot key"

// opens checks that key is the searched one.
func opens(t *testing.T, p process, key []byte) {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(p.path("run/cadre/credentials"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Open(nil, nil, sealed, []byte(sealPurpose)); err != nil {
		t.Errorf("what the boot of process %s holds is not sealed under the key that is looked for: %v", p.pid, err)
	}
}

// bootCanaries are the Boot key, which is nowhere but in the memory of the agent's two
// processes, and the key that follows from it, under which the run folder's file is sealed.
func bootCanaries(t *testing.T, p process, add func(string, []byte, ...string)) {
	t.Helper()
	mark, err := hex.DecodeString(pkcs8)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	inMemory(t, p, func(text []byte) {
		for at := bytes.Index(text, mark); at >= 0 && at+keySize <= len(text); {
			if key, err := x509.ParsePKCS8PrivateKey(text[at : at+keySize]); err == nil {
				scalar, err := key.(*ecdsa.PrivateKey).Bytes()
				if err != nil {
					t.Fatal(err)
				}
				held, err := hkdf.Key(sha256.New, scalar, nil, sealPurpose, 32)
				if err != nil {
					t.Fatal(err)
				}
				opens(t, p, held)
				add(bootKey, scalar)
				add("key of what a boot holds", held)
				found++
			}
			next := bytes.Index(text[at+1:], mark)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	})
	if found == 0 {
		t.Logf("process %s of %s has no boot key in memory any more; its other one has", p.pid, p.program)
	}
}

// inMemory reads the writable memory of a process, region by region.
func inMemory(t *testing.T, p process, look func(text []byte)) {
	t.Helper()
	maps, err := os.ReadFile(filepath.Join("/proc", p.pid, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(filepath.Join("/proc", p.pid, "mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close() //nolint:errcheck // read only
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || !strings.HasPrefix(rights, "rw") || to-from > 256<<20 {
			continue
		}
		text := make([]byte, to-from)
		if n, err := memory.ReadAt(text, from); n > 0 {
			look(text[:n])
		} else if err != nil {
			continue // not there to be read
		}
	}
}

// derivedCanaries are the coordinators' derived values of their cluster ID, which are in no file:
// the guest agent gives the same to every caller from that app. For each CA it checks that its key
// is the searched one: another path would give values that occur nowhere.
func (c *cluster) derivedCanaries(t *testing.T, p process, add func(string, []byte, ...string)) {
	t.Helper()
	known, err := client.LoadContext(c.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	guest := attest.NewGuestClient(p.path("run/dstack.sock"))
	derive := func(purpose string, size int) []byte {
		path := "cadre/v1/" + known.Cluster + "/" + known.ClusterID + "/" + purpose
		ikm, err := guest.GetKey(t.Context(), path, "cadre")
		if err != nil {
			t.Fatal(err)
		}
		key, err := hkdf.Key(sha256.New, ikm, nil, path, size)
		if err != nil {
			t.Fatal(err)
		}
		add("app key "+purpose, ikm)
		add("derived key "+purpose, key)
		return key
	}
	for purpose, size := range map[string]int{"admission-nonce/1": 32, "management-token/1": 32, "gossip/1": 32, "gossip/2": 32, "secret/light/cookie/1": 24, "secret/light/cookie/2": 24, "operator-secrets/1": 32} {
		derive(purpose, size)
	}
	ca := ed25519.NewKeyFromSeed(derive("ca/1", ed25519.SeedSize))
	if !ca.Public().(ed25519.PublicKey).Equal(publicKey(t, known.CAPEM)) {
		t.Error("the cluster's CA has not the key that is looked for")
	}
	mesh := meshKey(t, derive("connect-ca/1", meshSeed))
	scalar, err := mesh.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	// Consul signs with it, so its state has it.
	add("key of the service mesh's CA", scalar, mayBeConsulState)
	var roots struct{ Roots []struct{ RootCert string } }
	if err := json.Unmarshal(c.page(t, p, "http://127.0.0.1:8500/v1/connect/ca/roots"), &roots); err != nil {
		t.Fatal(err)
	}
	for _, root := range roots.Roots {
		if mesh.PublicKey.Equal(publicKey(t, root.RootCert)) {
			return
		}
	}
	t.Errorf("none of %d roots of the service mesh has the key that is looked for", len(roots.Roots))
}

// meshSeed is the part of the service mesh CA's derived value that makes its key. The rest makes
// the mesh's name, which is no secret.
const meshSeed = 48

// meshKey is the P-256 key of a seed: 1 to n-1.
func meshKey(t *testing.T, seed []byte) *ecdsa.PrivateKey {
	t.Helper()
	most := new(big.Int).Sub(elliptic.P256().Params().N, big.NewInt(1))
	d := new(big.Int).SetBytes(seed)
	d.Add(d.Mod(d, most), big.NewInt(1))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d.FillBytes(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicKey(t *testing.T, text string) crypto.PublicKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatal("a CA is no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.PublicKey
}

// keyMarks find private keys whose value no test can know: keys of Boots and SVIDs.
func keyMarks(t *testing.T) []leak.Canary {
	t.Helper()
	mark, err := hex.DecodeString(pkcs8)
	if err != nil {
		t.Fatal(err)
	}
	return []leak.Canary{
		{Name: "a P-256 private key (PKCS #8)", Value: mark},
		{Name: "a PEM private key", Value: []byte("-----BEGIN PRIVATE KEY-----")},
		// The CA of Consul's service mesh, whose key is part of its state.
		{Name: "a PEM EC private key", Value: []byte("-----BEGIN EC PRIVATE KEY-----"), May: []string{mayBeConsulState}},
	}
}

// backupSink is the sink that is a backup of the records.
const backupSink = "cadre cluster backup"

// sinks reads everything that leaves the memory of a CVM and gives it to scan.
func (c *cluster) sinks(t *testing.T, scan func(sink string, text []byte)) {
	t.Helper()
	all, ours := c.inside(t)
	for _, p := range all {
		for _, name := range []string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join("/proc", p.pid, name)); err == nil {
				scan("process "+p.program+" "+name, text)
			}
		}
	}
	for _, p := range ours {
		for _, page := range []string{
			"http://127.0.0.1:7070/metrics", "http://127.0.0.1:7070/v1/instance", "http://127.0.0.1:7070/v1/lifecycle", "http://127.0.0.1:7070/readyz",
			"http://127.0.0.1:8500/v1/agent/self", "http://127.0.0.1:8500/v1/agent/members", "http://127.0.0.1:8500/v1/agent/metrics",
		} {
			scan(p.program+" "+page, c.page(t, p, page))
		}
		if p.program == "cadre-coordinator" {
			scan("KV", c.page(t, p, "http://127.0.0.1:8500/v1/kv/?recurse=true"))
			scan("ACL tokens' list", c.page(t, p, "http://127.0.0.1:8500/v1/acl/policies"))
		}
	}
	c.answers(t, scan)
	c.rings(t, scan)
}

// page fetches a page inside a CVM: a coordinator's with its management token, another
// one's with its workload's token. Values of KV come in base64, in which canaries are looked for too.
func (c *cluster) page(t *testing.T, p process, url string) []byte {
	t.Helper()
	token := ""
	if p.program == "cadre-coordinator" {
		var config struct {
			ACL struct{ Tokens map[string]string }
		}
		if err := json.Unmarshal(c.file(t, p, "run/cadre/consul/consul.json"), &config); err != nil {
			t.Fatal(err)
		}
		token = config.ACL.Tokens["initial_management"]
	} else {
		token = string(c.file(t, p, "run/mesh/consul-token"))
	}
	const fetch = `import os,sys,urllib.request,urllib.error
r=urllib.request.Request(sys.argv[1],headers={"X-Consul-Token":os.environ["T"]})
try: b=urllib.request.urlopen(r,timeout=10).read()
except urllib.error.HTTPError as e: b=e.read()
sys.stdout.buffer.write(b)`
	cmd := exec.CommandContext(within(t, 20*time.Second), "nsenter", "--net=/proc/"+p.pid+"/ns/net", "python3", "-c", fetch, url)
	cmd.Env = append(os.Environ(), "T="+token)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Logf("fetch %s: %v %s", url, err, problems.String())
	}
	return out
}

// answers are the operators' view: every read of the command line, as tables and JSON, and
// refusals.
func (c *cluster) answers(t *testing.T, scan func(sink string, text []byte)) {
	t.Helper()
	for _, args := range [][]string{
		{"cluster", "status"}, {"group", "list"}, {"group", "describe", rig.Light}, {"rollout", "plan", rig.Light}, {"rollout", "history", rig.Light},
		{"instance", "list"}, {"instance", "describe", "light-0"}, {"overlay", "status"}, {"secret", "list"}, {"status"},
		{"secret", "rotate", "light/nothing"}, {"secret", "rotate", "light/s3-key"}, {"audit"}, {"group", "describe", "missing"}, {"instance", "describe", "light-99"},
	} {
		for _, format := range [][]string{nil, {"-o", "json"}} {
			out, err := c.Cadre(within(t, 30*time.Second), append(args, format...)...)
			scan("cadre "+strings.Join(append(args, format...), " "), fmt.Append(nil, out, err))
		}
	}
	figures, err := c.Cadre(within(t, 30*time.Second), "metrics", "--once")
	scan("cadre metrics", fmt.Append(nil, figures, err))
	c.report(t, scan)
	// The records have ciphertexts, and so has a backup of them.
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := c.Cadre(within(t, time.Minute), "cluster", "backup", "-o", backup); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	scan(backupSink, text)
	for line := range bytes.Lines(text) {
		var record struct{ Value []byte }
		if json.Unmarshal(line, &record) == nil {
			scan(backupSink, record.Value)
		}
	}
}

// report gives each file of a support bundle to scan, which also must not have the operator's token.
func (c *cluster) report(t *testing.T, scan func(sink string, text []byte)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.tar.gz")
	if out, err := c.Cadre(within(t, time.Minute), "report", "-o", path); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	token, err := leak.New([]leak.Canary{{Name: "the operator's token", Value: []byte(c.api.Context().Token)}})
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for r := tar.NewReader(packed); ; files++ {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		sink := "cadre report " + header.Name
		scan(sink, text)
		hits, err := token.Scan(sink, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			t.Error(h)
		}
	}
	if files < 20 {
		t.Errorf("the report has %d files only", files)
	}
}

// disks gives every file on a disk of a CVM, and every log, to scan. File systems in memory are
// mounted over the disk, and so are not visible from the host.
func (c *cluster) disks(t *testing.T, scanner *leak.Scanner) (hits []leak.Hit, files int) {
	t.Helper()
	cvms := filepath.Join(c.State, "cloud", "cvms")
	for _, root := range []string{cvms, filepath.Join(c.State, "cloud", "logs"), filepath.Join(c.Root, ".out", "e2e.log")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it went meanwhile
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			name, err := filepath.Rel(c.State, path)
			if err != nil {
				return err
			}
			if strings.Contains(path, "/consul/raft/") {
				name = mayBeConsulState + name
			}
			file, err := os.Open(path)
			if err != nil {
				return nil // it went meanwhile
			}
			defer file.Close() //nolint:errcheck // read only
			files++
			found, err := scanner.Scan(name, file)
			hits = append(hits, found...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return hits, files
}

// cookie names the secrets that cookied leaves in the group's spec.
const cookie = "secrets"

// declared are these secrets: light/cookie is derived, and an operator seals light/s3-key.
const declared = `  secret "cookie" {
    owner = "65534:65534"
  }
  secret "s3-key" {
    source = "operator"
    owner  = "65534:65534"
  }
`

// cookied gives the group its secrets, unless the test before has left them there. The rollout waits
// until the operator's secret has its first value.
func (c *cluster) cookied(t *testing.T) {
	t.Helper()
	if c.left == cookie {
		return
	}
	file := c.edited(t, `  health_check "web" {`, declared+`  health_check "web" {`)
	c.left = cookie
	if _, err := c.ApplyLight(within(t, rollTime), file, c.next()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a step that waits for the value", time.Minute, func(ctx context.Context) error {
		plan, err := c.api.Plan(ctx, rig.Light, nil)
		for _, a := range plan.Actions {
			if slices.ContainsFunc(a.Holds, func(h rollout.Hold) bool { return h.Predicate == rollout.HoldSecretNoValue }) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("no action is held by %s: %+v", rollout.HoldSecretNoValue, plan.Actions))
	})
	c.seal(t, "s3-key")
	c.complete(t, rig.Light)
}

// seal gives the next value of an operator's secret of the light group, and returns the value.
func (c *cluster) seal(t *testing.T, name string) []byte {
	t.Helper()
	value := []byte(rand.Text())
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, value, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := c.Cadre(within(t, time.Minute), "secret", "set", rig.Light+"/"+name, "--from-file", file, "--reason", "the test asks")
	if err != nil || bytes.Contains([]byte(out), value) {
		t.Fatalf("set %s: %v %s", name, err, out)
	}
	return value
}

// TestTOK06_TOK07_SecretsStayInMemory runs a whole cluster, rotates its secrets, and then
// looks for every one of them, old and new, in everything that leaves the memory of
// the CVMs.
func TestTOK06_TOK07_SecretsStayInMemory(t *testing.T) {
	c := readyCluster(t)
	c.cookied(t)
	found := map[string]leak.Canary{}
	epochs := map[string]uint32{"light/cookie": c.epoch(t, "light/cookie"), "light/s3-key": c.epoch(t, "light/s3-key"), "cluster/gossip": c.epoch(t, "cluster/gossip")}
	for name, epoch := range epochs {
		c.delivered(t, name, epoch)
	}
	c.canaries(t, found)
	before := len(found)

	for _, name := range []string{"light/cookie", "gossip"} {
		if out, err := c.Cadre(within(t, time.Minute), "secret", "rotate", name, "--reason", "the test asks"); err != nil {
			t.Fatalf("rotate %s: %v %s", name, err, out)
		}
	}
	c.seal(t, "s3-key")
	for name, epoch := range epochs {
		c.delivered(t, name, epoch+1)
	}
	c.canaries(t, found)
	boots := 0
	for _, one := range found {
		if one.Name == bootKey {
			boots++
		}
	}
	if boots < 3 {
		t.Errorf("the keys of %d boots are looked for, want those of all members", boots)
	}
	if len(found) < before+3 {
		t.Errorf("%d secrets before the rotations, %d with those after them: something was not rotated", before, len(found))
	}
	canaries := keyMarks(t)
	for _, one := range found {
		canaries = append(canaries, one)
	}
	scanner, err := leak.New(canaries)
	if err != nil {
		t.Fatal(err)
	}

	var sinks, size int
	backedUp := false
	c.sinks(t, func(sink string, text []byte) {
		backedUp = backedUp || sink == backupSink && bytes.Contains(text, []byte(`"key":"sealed/light/s3-key"`))
		hits, err := scanner.Scan(sink, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		sinks, size = sinks+1, size+len(text)
		for _, h := range hits {
			t.Error(h)
		}
	})
	if !backedUp {
		t.Error("the backup has no ciphertext of the operator's secret")
	}
	hits, files := c.disks(t, scanner)
	for _, h := range hits {
		t.Error(h)
	}
	t.Logf("%d secrets looked for in %d answers (%d bytes) and %d files", len(canaries), sinks, size, files)
	if sinks < 60 || files < 30 {
		t.Errorf("only %d answers and %d files were looked at: the test does not see what it should", sinks, files)
	}

	// The test itself must be able to fail.
	planted := filepath.Join(c.State, "cloud", "cvms", "planted.log")
	if err := os.WriteFile(planted, fmt.Appendf(nil, "level=info token=%x", canaries[len(canaries)-1].Value), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(planted) //nolint:errcheck // gone with the cloud anyway
	if hits, _ := c.disks(t, scanner); len(hits) == 0 {
		t.Error("a secret that was planted in a log is not found")
	}
}

// epoch in force of a secret, once the leader has recorded it.
func (c *cluster) epoch(t *testing.T, name string) (epoch uint32) {
	t.Helper()
	groupName, secret, _ := strings.Cut(name, "/")
	eventually(t, "an epoch of "+name, time.Minute, func(ctx context.Context) error {
		list, err := c.api.Secrets(ctx, groupName)
		for _, one := range list {
			if one.Name == secret && one.Epoch > 0 {
				epoch = one.Epoch
				return nil // it went meanwhile
			}
		}
		return errors.Join(err, errors.New("none yet"))
	})
	return epoch
}

// delivered waits until a secret's epoch is in force and every Slot has it.
func (c *cluster) delivered(t *testing.T, name string, epoch uint32) {
	t.Helper()
	groupName, secret, _ := strings.Cut(name, "/")
	eventually(t, fmt.Sprintf("epoch %d of %s with everybody", epoch, name), 2*time.Minute, func(ctx context.Context) error {
		list, err := c.api.Secrets(ctx, groupName)
		if err != nil {
			return err
		}
		for _, one := range list {
			if one.Name != secret {
				continue
			}
			// The cluster's own key is given to no member.
			if want := map[bool]uint32{true: 0, false: 3}[groupName == "cluster"]; one.Epoch == epoch && one.Step == "" && one.Delivered == want && one.Connected == want {
				return nil // it went meanwhile
			}
			return fmt.Errorf("%+v", one)
		}
		return errors.New("it is not listed")
	})
}

// TestTOK09_SecretReachesTheWorkloadAsAFile: owner, mode and content, and no other
// user of the CVM reads it.
func TestTOK09_SecretReachesTheWorkloadAsAFile(t *testing.T) {
	c := readyCluster(t)
	c.cookied(t)
	const look = `import os; p="/run/mesh/secrets/cookie"; s=os.lstat(p); print(s.st_uid, s.st_gid, oct(s.st_mode), len(open(p).read()))`
	values := map[string]bool{}
	for n := range 3 {
		out, err := c.Exec(within(t, 30*time.Second), c.PlatformName("light-"+strconv.Itoa(n)), "web", "python3", "-c", look)
		if err != nil || strings.TrimSpace(out) != "65534 65534 0o100600 48" {
			t.Errorf("light-%d: %q, %v", n, out, err)
		}
	}
	_, ours := c.inside(t)
	for _, p := range ours {
		if p.program == "cadre-agent" {
			values[string(c.file(t, p, "run/mesh/secrets/cookie"))] = true
		}
	}
	if len(values) != 1 {
		t.Errorf("%d different values on the group's slots, want one", len(values))
	}
}

// TestTOK10_CoordinatorThatWasAwayForARotation: its Consul server comes back with the
// key in force, which it cannot have read anywhere but from the other coordinators.
func TestTOK10_CoordinatorThatWasAwayForARotation(t *testing.T) {
	c := ready(t)
	epoch := c.epoch(t, "cluster/gossip")
	away := c.PlatformName("coordinator-2")
	if err := c.Kill(within(t, 30*time.Second), away); err != nil {
		t.Fatal(err)
	}
	started := false
	start := func(ctx context.Context) error {
		if started {
			return nil
		}
		started = true
		return c.Start(ctx, away)
	}
	t.Cleanup(func() {
		if err := start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// The request's coordinator may have been the leader.
	eventually(t, "an answer to the request for a rotation", time.Minute, func(ctx context.Context) error {
		_, err := c.api.RotateSecret(ctx, "cluster", "gossip", "a coordinator is away")
		return err
	})
	c.delivered(t, "cluster/gossip", epoch+1)
	if err := start(within(t, 30*time.Second)); err != nil {
		t.Fatal(err)
	}
	const members = rig.Coordinators
	eventually(t, "every coordinator sees all of them alive", 2*time.Minute, func(context.Context) error {
		_, ours := c.inside(t)
		seen := 0
		for _, p := range ours {
			if p.program != "cadre-coordinator" {
				continue
			}
			if _, err := os.Stat(p.path("run/cadre/consul/consul.json")); err != nil {
				return err
			}
			alive := bytes.Count(c.page(t, p, "http://127.0.0.1:8500/v1/agent/members"), []byte(`"Status":1`))
			if alive != members {
				return fmt.Errorf("a coordinator sees %d members alive, want %d", alive, members)
			}
			seen++
		}
		if seen != rig.Coordinators {
			return fmt.Errorf("%d coordinators run", seen)
		}
		return nil
	})
}
