package window

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at reads a time in a zone.
func at(t *testing.T, zone, text string) time.Time {
	t.Helper()
	z, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	out, err := time.ParseInLocation("2006-01-02 15:04:05", text, z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestR97_TheNextOpening(t *testing.T) {
	office := Window{Days: []string{"Mon-Fri"}, From: "09:00", To: "16:00", Zone: "Europe/Berlin", Except: []string{"2026-12-24", "2026-12-25"}}
	night := Window{Days: []string{"Fri"}, From: "22:00", To: "06:00", Zone: "Europe/Berlin", Except: []string{"2026-12-05"}}
	gap := Window{From: "02:15", To: "02:45", Zone: "Europe/Berlin"}
	for _, c := range []struct {
		name     string
		w        Window
		from, to string
	}{
		{"open at its first second", office, "2026-11-30 09:00:00", "2026-11-30 09:00:00"},
		{"closed a second before", office, "2026-11-30 08:59:59", "2026-11-30 09:00:00"},
		{"closed at its end", office, "2026-11-30 16:00:00", "2026-12-01 09:00:00"},
		{"over the weekend", office, "2026-12-04 16:00:00", "2026-12-07 09:00:00"},
		{"over holidays and a weekend", office, "2026-12-23 16:30:00", "2026-12-28 09:00:00"},
		{"open past midnight of its day", night, "2026-12-12 05:59:59", "2026-12-12 05:59:59"},
		{"closed after it", night, "2026-12-12 06:00:00", "2026-12-18 22:00:00"},
		{"no opening on the evening before Friday", night, "2026-12-03 23:00:00", "2026-12-04 22:00:00"},
		{"closed when an excepted date begins", night, "2026-12-05 00:00:00", "2026-12-11 22:00:00"},
		{"skipped with the hour of summer time", gap, "2026-03-28 03:00:00", "2026-03-30 02:15:00"},
		{"a range past the end of a week", Window{Days: []string{"Sat-Mon"}, From: "00:00", To: "24:00", Zone: "Europe/Berlin"}, "2026-12-01 00:00:00", "2026-12-05 00:00:00"},
	} {
		got, _, ok := Windows{c.w}.Next(at(t, "Europe/Berlin", c.from))
		if want := at(t, "Europe/Berlin", c.to); !ok || !got.Equal(want) {
			t.Errorf("%s: the next opening after %s is %s, %v; want %s", c.name, c.from, got, ok, want)
		}
	}

	// The clocks of Berlin show 02:15 to 02:45 twice on 25 October 2026: at 00:15 and at 01:15 UTC.
	second := time.Date(2026, 10, 25, 1, 15, 0, 0, time.UTC)
	if got, _, ok := (Windows{gap}).Next(time.Date(2026, 10, 25, 0, 45, 0, 0, time.UTC)); !ok || !got.Equal(second) {
		t.Errorf("between the two hours of a change back, the next opening is %s, want %s", got, second)
	}
}

func TestR97_WithoutAWindowEveryInstantIsOpen(t *testing.T) {
	if now := time.Now(); !(Windows{}).Open(now) {
		t.Error("a group without windows is closed")
	}
}

// TestR97_AnUnreadableWindowStaysClosed: the group fails closed if a window that validation refuses is in its record.
func TestR97_AnUnreadableWindowStaysClosed(t *testing.T) {
	if at, _, ok := (Windows{{From: "09:00", To: "10:00", Zone: "Europe/Nowhere"}}).Next(time.Now()); ok {
		t.Errorf("it opens at %s", at)
	}
}

// minutes says by a clock's text whether w is open: the definition that the arithmetic must match.
func minutes(w Window, z *time.Location, t time.Time) bool {
	l := t.In(z)
	clock, today := l.Format("15:04"), l.Format(time.DateOnly)
	noon := time.Date(l.Year(), l.Month(), l.Day(), 12, 0, 0, 0, time.UTC)
	opens := func(day time.Time) bool {
		for _, text := range w.Days {
			from, to, _ := strings.Cut(text, "-")
			if to == "" {
				to = from
			}
			for d := slices.Index(names, from); ; d = (d + 1) % 7 {
				if day.Weekday() == time.Weekday(d) && !slices.Contains(w.Except, day.Format(time.DateOnly)) {
					return true
				}
				if d == slices.Index(names, to) {
					break
				}
			}
		}
		return len(w.Days) == 0 && !slices.Contains(w.Except, day.Format(time.DateOnly))
	}
	if slices.Contains(w.Except, today) {
		return false
	}
	if w.From < w.To {
		return opens(noon) && w.From <= clock && clock < w.To
	}
	return opens(noon) && w.From <= clock || opens(noon.AddDate(0, 0, -1)) && clock < w.To
}

// TestR97_TheNextOpeningIsThatOfAScanByMinutes: in zones whose clocks skip and repeat half an hour, an hour, midnight
// or a whole day, the next opening is the first minute at which the clock's text lies in a window.
func TestR97_TheNextOpeningIsThatOfAScanByMinutes(t *testing.T) {
	starts := []time.Time{ // a few days before changes of clocks
		time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 23, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC), time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC), time.Date(2018, 11, 2, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 12, 22, 0, 0, 0, 0, time.UTC),
	}
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "America/Havana", "Asia/Kathmandu"})
	clock := func(t *rapid.T, name string, last int) string {
		m := rapid.IntRange(0, last).Draw(t, name)
		return fmt.Sprintf("%02d:%02d", m/60, m%60)
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(starts).Draw(t, "start").Add(time.Duration(rapid.IntRange(0, 4*minutesOfDay).Draw(t, "minutes")) * time.Minute)
		var ws Windows
		var zs []*time.Location
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			w := Window{Zone: zone.Draw(t, "zone"), From: clock(t, "from", minutesOfDay-1), To: clock(t, "to", minutesOfDay)}
			for range rapid.IntRange(0, 2).Draw(t, "days") {
				days := rapid.SampledFrom(names).Draw(t, "first")
				if rapid.Bool().Draw(t, "range") {
					days += "-" + rapid.SampledFrom(names).Draw(t, "last")
				}
				w.Days = append(w.Days, days)
			}
			for range rapid.IntRange(0, 3).Draw(t, "except") {
				w.Except = append(w.Except, from.AddDate(0, 0, rapid.IntRange(-1, 7).Draw(t, "date")).Format(time.DateOnly))
			}
			if w.From == w.To {
				continue
			}
			if p := w.Problems(); len(p) > 0 {
				t.Fatal(p)
			}
			z, err := Zone(w.Zone)
			if err != nil {
				t.Fatal(err)
			}
			ws, zs = append(ws, w), append(zs, z)
		}
		if len(ws) == 0 {
			return
		}
		got, in, ok := ws.Next(from)
		if !ok || got.Before(from) {
			t.Fatalf("the next opening after %s is %s, %v", from, got, ok)
		}
		if z, _ := Zone(in.Zone); !minutes(in, z, got) {
			t.Fatalf("%v is not open at %s", in, got)
		}
		for now := from; now.Before(got) && now.Before(from.AddDate(0, 0, 10)); now = now.Add(time.Minute) {
			for i, w := range ws {
				if minutes(w, zs[i], now) {
					t.Fatalf("%v is open at %s (%s), before %s", w, now, now.In(zs[i]), got)
				}
			}
		}
	})
}

// FuzzWindow: no text makes a window panic or run without end, and a window without problems opens.
func FuzzWindow(f *testing.F) {
	f.Add("Mon-Fri", "09:00", "16:00", "Europe/Berlin", "2026-12-24")
	f.Add("", "23:30", "00:10", "Pacific/Apia", "")
	f.Fuzz(func(t *testing.T, days, from, to, zone, except string) {
		w := Window{Days: []string{days}, From: from, To: to, Zone: zone, Except: []string{except}}
		_, _, ok := Windows{w}.Next(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))
		if sound := len(w.Problems()) == 0; sound != ok {
			t.Errorf("%+v: problems %v, and opens %v", w, w.Problems(), ok)
		}
	})
}

func TestProblemsOfAWindowAreReportedTogether(t *testing.T) {
	w := Window{Days: []string{"Mon-Fri", "Someday", "mon"}, From: "24:00", To: "9:00", Zone: "Europe/Nowhere", Except: []string{"2026-12-24", "24.12.2026", "2026-02-30"}}
	var fields []string
	for _, p := range w.Problems() {
		fields = append(fields, p.Field)
	}
	want := []string{"days[1]", "days[2]", "from", "to", "zone", "except[1]", "except[2]"}
	if !slices.Equal(fields, want) {
		t.Errorf("problems of %v, want %v", fields, want)
	}
	for _, empty := range []Window{{From: "09:00", To: "09:00", Zone: "UTC"}, {From: "00:00", To: "00:00", Zone: "UTC"}} {
		if p := empty.Problems(); len(p) != 1 || p[0].Field != "to" || !strings.Contains(p[0].Message, "never opens") {
			t.Errorf("%+v: %v", empty, p)
		}
	}
	for _, zone := range []string{"", "Local", "Europe", "../etc/passwd", "Europe/../UTC", "/etc/localtime", "europe/berlin", strings.Repeat("a", 200)} {
		if p := (Window{From: "09:00", To: "10:00", Zone: zone}).Problems(); len(p) != 1 || p[0].Field != "zone" {
			t.Errorf("zone %q: %v", zone, p)
		}
	}
}

// TestTheZoneIsThatOfTheTable: settings of the machine change no decision.
func TestTheZoneIsThatOfTheTable(t *testing.T) {
	t.Setenv("ZONEINFO", "/nonexistent")
	t.Setenv("TZ", "America/New_York")
	z, err := Zone("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).In(z).Zone(); offset != 5*3600+45*60 {
		t.Errorf("the offset is %d s", offset)
	}
}
