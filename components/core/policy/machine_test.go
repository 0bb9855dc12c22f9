package policy

import (
	"strings"
	"testing"
	"time"
)

func TestJudgeMachine(t *testing.T) {
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	apart := MachineRule{MaxPer: 1}
	for name, c := range map[string]struct {
		rule    MachineRule
		machine string
		kept    bool
		others  []Neighbour
		want    Code
	}{
		"no rule":                                  {MachineRule{}, "", false, []Neighbour{{"pg-1", one, true}}, ""},
		"alone":                                    {apart, one, false, nil, ""},
		"another machine":                          {apart, one, false, []Neighbour{{"pg-1", two, true}}, ""},
		"shared":                                   {apart, one, false, []Neighbour{{"pg-1", one, true}}, CodeMachineShared},
		"shared with a stopped one":                {apart, one, false, []Neighbour{{"pg-1", one, false}}, CodeMachineShared},
		"shared, and there before":                 {apart, one, true, []Neighbour{{"pg-1", one, true}}, ""},
		"two permitted, one there":                 {MachineRule{MaxPer: 2}, one, false, []Neighbour{{"pg-1", one, true}}, ""},
		"two permitted, two there":                 {MachineRule{MaxPer: 2}, one, false, []Neighbour{{"pg-1", one, true}, {"pg-2", one, false}}, CodeMachineShared},
		"two permitted, one there, one unknown":    {MachineRule{MaxPer: 2}, one, false, []Neighbour{{"pg-1", one, true}, {"pg-2", "", true}}, CodeMachineUnknown},
		"next to a live one of an unknown host":    {apart, one, false, []Neighbour{{"pg-1", "", true}}, CodeMachineUnknown},
		"next to a stopped one of an unknown host": {apart, one, false, []Neighbour{{"pg-1", "", false}}, ""},
		"no machine":                               {apart, "", false, nil, CodeMachineUnknown},
		"no machine, there before":                 {apart, "", true, nil, ""},
		"no machine, with a list, there before":    {MachineRule{Only: []string{one}}, "", true, nil, ""},
		"no machine, with a list":                  {MachineRule{Only: []string{one}}, "", false, nil, CodeMachineUnknown},
		"listed":                                   {MachineRule{Only: []string{two, one}}, one, false, nil, ""},
		"listed by 16 digits":                      {MachineRule{Only: []string{one[:16]}}, one, false, nil, ""},
		"listed by 15 digits":                      {MachineRule{Only: []string{one[:15]}}, one, false, nil, CodeMachineNotListed},
		"listed as nothing":                        {MachineRule{Only: []string{""}}, one, false, nil, CodeMachineNotListed},
		"not listed":                               {MachineRule{Only: []string{two}}, one, false, nil, CodeMachineNotListed},
		"not listed, and there before":             {MachineRule{Only: []string{two}}, one, true, nil, ""},
		"listed and shared":                        {MachineRule{MaxPer: 1, Only: []string{one}}, one, false, []Neighbour{{"pg-1", one, true}}, CodeMachineShared},
	} {
		d := JudgeMachine(c.rule, c.machine, c.kept, c.others)
		if d.Code != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
		if len(d.Message) > maxDecisionText {
			t.Errorf("%s: the message has %d bytes and loses its end: %s", name, len(d.Message), d.Message)
		}
	}
}

func TestMachineRecordOfAnInstance(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	next := func(r MachineRecord, instance, machine string) (MachineRecord, bool) {
		at = at.Add(time.Hour)
		return r.Next("pg", "pg-0", instance, machine, at, "coordinator-0")
	}
	first, changed := next(MachineRecord{}, "i", "one")
	if changed || first.Before != "" || !first.Since.Equal(at) || !first.Of("i") || first.Of("j") || first.Of("") {
		t.Errorf("first: %+v, %t", first, changed)
	}
	if none := (MachineRecord{InstanceID: "i"}); none.Of("i") || !none.Judged("i") || none.Judged("j") || none.Judged("") {
		t.Errorf("a record without a machine: %+v", none)
	} else if named, changed := next(none, "i", "one"); changed || !named.Of("i") {
		t.Errorf("the first machine: %+v, %t", named, changed)
	}
	if same, changed := next(first, "i", "one"); changed || same != first {
		t.Errorf("the same machine: %+v, %t", same, changed)
	}
	moved, changed := next(first, "i", "two")
	if !changed || moved.Before != "one" || moved.Machine != "two" || !moved.Since.Equal(at) {
		t.Errorf("another machine: %+v, %t", moved, changed)
	}
	if other, changed := next(moved, "j", "one"); changed || other.Before != "" || !other.Of("j") {
		t.Errorf("another instance: %+v, %t", other, changed)
	}
}
