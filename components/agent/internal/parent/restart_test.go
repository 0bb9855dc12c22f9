package parent

import (
	"testing"
	"time"
)

func TestWhenAWorkerIsStartedAgain(t *testing.T) {
	killed := func(lived time.Duration) exit { return exit{code: -1, signal: "killed", lived: lived} }
	hung := func(lived time.Duration) exit { return exit{code: 2, lived: lived, hung: true} }
	for name, c := range map[string]struct {
		exits []exit
		want  next
	}{
		"killed at work: at once":               {[]exit{killed(time.Minute)}, next{}},
		"killed at its start: at once":          {[]exit{killed(0)}, next{}},
		"killed twice at its start":             {[]exit{killed(0), killed(0)}, next{pause: pauseFirst}},
		"killed three times":                    {[]exit{killed(0), killed(0), killed(0)}, next{pause: 2 * pauseFirst}},
		"killed each time":                      {make([]exit, 100), next{spent: true, pause: pauseMost}},
		"steady meanwhile":                      {[]exit{killed(0), killed(0), killed(time.Minute)}, next{}},
		"an error at the first start":           {[]exit{{code: 1}}, next{end: true}},
		"an error at the start after a kill":    {[]exit{killed(0), {code: 1}}, next{end: true}},
		"an error after one was steady":         {[]exit{killed(time.Minute), {code: 1}}, next{pause: pauseFirst}},
		"an error of a steady one":              {[]exit{{code: 1, lived: time.Minute}}, next{}},
		"a panic after one was steady":          {[]exit{killed(time.Minute), killed(0), {code: 2}}, next{pause: 2 * pauseFirst}},
		"it hung: at once":                      {[]exit{hung(2 * time.Minute)}, next{}},
		"three hung in a row: left alone":       {[]exit{hung(2 * time.Minute), hung(2 * time.Minute), hung(2 * time.Minute)}, next{leave: true}},
		"three hung, long apart":                {[]exit{hung(time.Hour), hung(time.Hour), hung(time.Hour)}, next{}},
		"hung, and one died between":            {[]exit{hung(2 * time.Minute), hung(2 * time.Minute), killed(time.Minute), hung(2 * time.Minute)}, next{}},
		"in order, without being asked: a Boot": {[]exit{{lived: time.Minute}}, next{spent: true}},
	} {
		r, got := restarts{steady: steady}, next{}
		for _, e := range c.exits {
			r, got = r.after(e)
		}
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
