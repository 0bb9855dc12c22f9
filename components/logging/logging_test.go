package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestRecordsAreJSONWithTheirAttributes(t *testing.T) {
	var out bytes.Buffer
	log := New("cadre-test", "info", &out).With("slot", "db-0").WithGroup("call")
	log.Debug("not written")
	log.Warn("not done", "error", errors.New("no luck"), "number", 2)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	for key, want := range map[string]any{
		"@level": "warn", "@module": "cadre-test", "@message": "not done",
		"slot": "db-0", "call.error": "no luck", "call.number": 2.0,
	} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
}

func TestAnUnknownLevelIsInfo(t *testing.T) {
	var out bytes.Buffer
	log := New("cadre-test", "loud", &out)
	log.Debug("not written")
	log.Info("written")
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, out.String())
	}
}
