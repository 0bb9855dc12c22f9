package attest

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/policy"
)

// compose06 is a document of guest images 0.6 with two init scripts.
const compose06 = `{"manifest_version":"3","runner":"docker-compose","docker_compose_file":"services: {}","kms_enabled":true,"key_provider":"kms","secure_time":true,"name":"x",` +
	`"init_script":["one","two"],"requirements":{"gpu_policy":{"attest_gpu":true}}}`

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// boot06 are the events of a guest image 0.6, in its order.
func boot06(version int, compose string, scripts []string, gpuPolicy string) []event {
	events := []event{
		runtimeOf(version, eventPreparing, nil), runtimeOf(version, eventAppID, fakeAppID), runtimeOf(version, eventComposeHash, digestOf(compose)),
	}
	for _, script := range scripts {
		events = append(events, runtimeOf(version, eventInitScript, digestOf(script)))
	}
	return append(events,
		runtimeOf(version, eventGPUPolicy, digestOf(gpuPolicy)), runtimeOf(version, eventInstanceID, fakeInstanceID),
		runtimeOf(version, eventBootMRDone, nil), runtimeOf(version, eventOSImageHash, bytes.Repeat([]byte{5}, 32)),
		runtimeOf(version, eventKeyProvider, []byte(fakeProvider)), runtimeOf(version, eventStorageFS, []byte("zfs")), runtimeOf(version, eventReady, nil))
}

// TestATT18_BootLogsOfGuestImages06: an image's events must match the compose file.
func TestATT18_BootLogsOfGuestImages06(t *testing.T) {
	const policyText = `{"attest_gpu":true}`
	two, own := []string{"one", "two"}, []string{appcompose.InitScript}
	version2 := strings.Replace(compose06, `"name":"x"`, `"name":"x","event_log_version":2`, 1)
	plain := string(fakeCompose)
	five := strings.Replace(compose06, `["one","two"]`, `["1","2","3","4","5"]`, 1)
	six := strings.Replace(compose06, `["one","two"]`, `["1","2","3","4","5","6"]`, 1)
	for name, c := range map[string]struct {
		compose string
		events  []event
		want    policy.Code
	}{
		"an image 0.6":                 {compose06, boot06(1, compose06, two, policyText), ""},
		"no key of 0.6":                {plain, boot06(1, plain, own, `{}`), ""},
		"five scripts":                 {five, boot06(1, five, strings.Split("12345", ""), policyText), ""},
		"six scripts":                  {six, boot06(1, six, strings.Split("123456", ""), policyText), CodeEventLogAmbiguous},
		"a script less":                {compose06, boot06(1, compose06, two[:1], policyText), CodeEventLogInvalid},
		"no script":                    {compose06, boot06(1, compose06, nil, policyText), CodeEventLogInvalid},
		"another script":               {compose06, boot06(1, compose06, []string{"one", "2"}, policyText), CodeEventLogInvalid},
		"another order of scripts":     {compose06, boot06(1, compose06, []string{"two", "one"}, policyText), CodeEventLogInvalid},
		"a script that is not its own": {plain, boot06(1, plain, two[:1], `{}`), CodeEventLogInvalid},
		"a script in addition":         {plain, boot06(1, plain, append(own, "two"), `{}`), CodeEventLogInvalid},
		"another GPU policy":           {compose06, boot06(1, compose06, two, `{}`), CodeEventLogInvalid},
		"version 2":                    {version2, boot06(2, version2, two, policyText), ""},
		"version 2 without the key":    {compose06, boot06(2, compose06, two, policyText), CodeEventLogInvalid},
		"version 1 in spite of it":     {version2, boot06(1, version2, two, policyText), CodeEventLogInvalid},
		"an image 0.5 in spite of it":  {version2, bootEvents(digestOf(version2)), CodeEventLogInvalid},
		"an image 0.5":                 {compose06, bootEvents(digestOf(compose06)), ""},
		"GPUs": {compose06, slices.Insert(boot06(1, compose06, two, policyText), 6,
			runtime(eventGPU, bytes.Repeat([]byte("x"), maxGPUPayload))), ""},
		"GPUs that say too much": {compose06, slices.Insert(boot06(1, compose06, two, policyText), 6,
			runtime(eventGPU, bytes.Repeat([]byte("x"), maxGPUPayload+1))), CodeEventLogInvalid},
		"a policy twice": {plain, slices.Insert(boot06(1, plain, own, `{}`), 4, runtime(eventGPUPolicy, digestOf(`{}`))), CodeEventLogAmbiguous},
		"versions mixed": {version2, append(boot06(2, version2, two, policyText), runtime("app", nil)), CodeEventLogAmbiguous},
		"a newer image":  {plain, slices.Insert(boot06(1, plain, own, `{}`), 4, runtime("npu-policy-hash", digestOf(`{}`))), policy.CodeGuestImageNewer},
	} {
		for _, stripped := range []bool{false, true} {
			f := newFake(t)
			f.compose, f.events, f.stripped = []byte(c.compose), c.events, stripped
			_, err := f.verify(t)
			wantCode(t, name, err, c.want)
		}
	}
}

// TestVersion2OfEventsIsCanonicalJSON: the text is that of dstack's own tests.
func TestVersion2OfEventsIsCanonicalJSON(t *testing.T) {
	for _, c := range []struct {
		name, want string
		payload    []byte
	}{
		{"compose-hash", `{"name":"compose-hash","payload":"abcd","type":134217729}`, []byte{0xab, 0xcd}},
		{"event\"with\\special\nchars", `{"name":"event\"with\\special\nchars","payload":"ff","type":134217729}`, []byte{0xff}},
		{"", `{"name":"","payload":"","type":134217729}`, nil},
	} {
		if got, err := runtimePreimage(2, c.name, c.payload); err != nil || string(got) != c.want {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
	want := sha512.Sum384([]byte(`{"name":"compose-hash","payload":"abcd","type":134217729}`))
	if got := runtimeOf(2, "compose-hash", []byte{0xab, 0xcd}).digest; got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
}

// TestMRConfigIDVersion3 commits to app, compose, instance and key provider; the document is that
// of dstack's own tests. Any part that differs from the measured one is rejected.
func TestMRConfigIDVersion3(t *testing.T) {
	document := `{"app_id":"` + strings.Repeat("11", 20) + `","compose_hash":"` + strings.Repeat("22", 32) + `","gpu_policy_hash":"` + strings.Repeat("55", 32) +
		`","instance_id":"` + strings.Repeat("44", 20) + `","key_provider":"kms","key_provider_id":"` + strings.Repeat("33", 32) + `","version":3}`
	boot := bootFacts{
		appID: bytes.Repeat([]byte{0x11}, 20), composeHash: bytes.Repeat([]byte{0x22}, 32), gpuPolicy: bytes.Repeat([]byte{0x55}, 32),
		instanceID: bytes.Repeat([]byte{0x44}, 20), keyProvider: KeyProvider{Name: "kms", ID: strings.Repeat("33", 32)},
	}
	sum := sha256.Sum256([]byte("dstack-mr-config-v3:\x00" + document))
	id := append(append([]byte{3}, sum[:]...), make([]byte, 15)...)
	if got, err := mrConfigIDV3(boot, true, false); err != nil || !bytes.Equal(got, id) {
		t.Fatalf("version 3: %x, %v; want %x", got, err, id)
	}
	for name, c := range map[string]struct {
		edit func(*bootFacts)
		want policy.Code
	}{
		"as measured":          {func(*bootFacts) {}, ""},
		"another app":          {func(b *bootFacts) { b.appID = bytes.Repeat([]byte{0x12}, 20) }, CodeTDAttributesForbidden},
		"another compose":      {func(b *bootFacts) { b.composeHash = bytes.Repeat([]byte{0x23}, 32) }, CodeTDAttributesForbidden},
		"another instance":     {func(b *bootFacts) { b.instanceID = bytes.Repeat([]byte{0x45}, 20) }, CodeTDAttributesForbidden},
		"another GPU policy":   {func(b *bootFacts) { b.gpuPolicy = bytes.Repeat([]byte{0x56}, 32) }, CodeTDAttributesForbidden},
		"another provider":     {func(b *bootFacts) { b.keyProvider.ID = strings.Repeat("34", 32) }, CodeTDAttributesForbidden},
		"another kind of them": {func(b *bootFacts) { b.keyProvider.Name = "local-sgx" }, CodeTDAttributesForbidden},
	} {
		other := boot
		c.edit(&other)
		wantCode(t, name, checkMRConfigID(id, other), c.want)
	}
	boot.initScripts = [][]byte{digestOf("one"), digestOf("two")}
	withScripts, err := mrConfigIDV3(boot, false, true)
	if err != nil || checkMRConfigID(withScripts, boot) != nil {
		t.Errorf("with init scripts: %v, %v", err, checkMRConfigID(withScripts, boot))
	}
	slices.Reverse(boot.initScripts)
	wantCode(t, "scripts in another order", checkMRConfigID(withScripts, boot), CodeTDAttributesForbidden)
	wantCode(t, "a bit of the tail", checkMRConfigID(append(bytes.Clone(id[:47]), 1), boot), CodeTDAttributesForbidden)
	f := newFake(t)
	hash := sha256.Sum256(fakeCompose)
	text := `{"app_id":"` + hex.EncodeToString(fakeAppID) + `","compose_hash":"` + hex.EncodeToString(hash[:]) + `","instance_id":"` + hex.EncodeToString(fakeInstanceID) + `","key_provider":"kms","key_provider_id":"3059","version":3}`
	sum = sha256.Sum256([]byte(mrConfigIDV3Domain + text))
	copy(f.report.MRConfigID[:], append([]byte{3}, sum[:]...))
	_, err = f.verify(t)
	wantCode(t, "in a quote", err, "")
}
