package provider_test

import (
	"fmt"
	"testing"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/clienttest"
	"cadre.dev/core/group"
)

func gateWord(body string) string {
	return groupOf("one", 2, quick+"  gate {\n    name = \"alarm\"\n    on   = [\"step\"]\n  }\n") + "\nresource \"cadre_gate\" \"alarm\" {\n  group = cadre_group.web.name\n  name = \"alarm\"\n" + body + "}\n"
}

// settings returns the settings in effect as text.
func settings(s *clienttest.Server) (out string) {
	for _, w := range s.GateSettings() {
		out += fmt.Sprintf("%s/%s %s: %s, ends %t; ", w.GetGroup(), w.GetGate(), w.GetState(), w.GetReason(), w.GetUntil() != nil)
	}
	return out
}

func TestAGateIsClosedAndOpened(t *testing.T) {
	t.Parallel()
	program := tofu(t)
	s, file := aside(t, overrideServer)
	f := newFolder(t, program).of(file)
	want := func(when, want string) {
		t.Helper()
		if got := settings(s); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	closed := "  state = \"closed\"\n  reason = \"the net is mended\"\n"
	f.write("main.tf", gateWord(closed))
	f.must("apply", "-auto-approve")
	want("applied", "web/alarm closed: the net is mended, ends false; ")
	wants(t, "after it", f.must("plan"), "No changes")

	cl := byHand(t, s)
	if _, err := cl.SetGate(t.Context(), client.GateSetting{Group: "web", Gate: "alarm", State: group.GateOpen, Reason: "mine", Length: time.Hour}); err != nil {
		t.Fatal(err)
	}
	wants(t, "opened by hand", f.must("plan"), `"open" -> "closed"`)
	f.must("apply", "-auto-approve")
	want("put back", "web/alarm closed: the net is mended, ends false; ")
	if _, err := cl.ClearGate(t.Context(), "web", "alarm", ""); err != nil {
		t.Fatal(err)
	}
	wants(t, "taken back by hand", f.must("plan"), "cadre_gate.alarm will be created")

	f.write("main.tf", gateWord("  state = \"open\"\n  reason = \"it is mended\"\n"))
	f.must("apply", "-auto-approve")
	want("opened", "web/alarm open: it is mended, ends false; ")
	f.must("destroy", "-auto-approve", "-target=cadre_gate.alarm")
	want("destroyed", "")

	for body, says := range map[string]string{
		"  state = \"ajar\"\n  reason = \"r\"\n":                                     "\"ajar\" is unknown",
		"  state = \"open\"\n  reason = \" \"\n":                                     "The reason is empty",
		"  state = \"open\"\n  reason = \"r\"\n  until = \"soon\"\n":                 "\"soon\" is no time",
		"  state = \"open\"\n  reason = \"r\"\n  until = \"2020-01-01T00:00:00Z\"\n": "until has passed",
		"  state = \"open\"\n  reason = \"r\"\n  slot = \"web-0\"\n":                 "slot",
	} {
		f.write("main.tf", gateWord(body))
		out, ok := f.run("apply", "-auto-approve")
		if wants(t, body, out, says); ok {
			t.Errorf("%s was applied", body)
		}
	}
	want("refused", "")
}
