package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/core/version"
)

func target(t *testing.T, software, to string) Target {
	t.Helper()
	for i := range all {
		if all[i].Software == software {
			v, _ := version.Parse(to)
			return Target{Rules: &all[i], Version: v}
		}
	}
	t.Fatalf("no rules of %s", software)
	return Target{}
}

// TestMeasuredSteps: each row was measured with real servers, or is the project's own word.
func TestMeasuredSteps(t *testing.T) {
	for _, row := range []struct {
		software, runs, data, to string
		// want are the codes; "!" marks a refusal.
		want string
		says string
	}{
		{"etcd", "3.5.35", "3.5.0", "3.6.16", "no_way_back", "`etcdctl downgrade enable 3.5`"},
		{"etcd", "3.6.5", "3.6.0", "v3.7.3", "no_way_back version_note", "`--experimental-...`"},
		{"etcd", "3.5.16", "3.5.0", "3.6.5", "version_first no_way_back", "3.5.26 or newer"},
		{"etcd", "3.5.35", "3.5.0", "3.7.3", "version_skipped!", "go to 3.6 first"},
		{"etcd", "3.4.33", "", "3.7.3", "version_skipped!", "go to 3.5 first"},
		{"etcd", "3.5.16", "3.5.0", "3.5.35", "", ""},
		{"etcd", "3.6.16", "3.6.0", "3.5.35", "way_back_closed!", "first run `etcdctl downgrade enable 3.5`"},
		{"etcd", "3.7.3", "3.7.0", "3.6.5", "way_back_closed!", "first run `etcdctl downgrade enable 3.6`"},
		{"etcd", "3.7.3", "3.7.0", "3.5.35", "version_skipped!", "go to 3.6 first"},
		{"etcd", "3.6.16", "3.5.0", "3.5.35", "", ""}, // some members are of 3.5, or a downgrade is enabled
		{"etcd", "3.6.16", "", "3.5.35", "way_back_closed", "if the data is already of etcd 3.6"},
		{"etcd", "3.5.35", "3.5.0", "3.4.33", "way_back_closed", "no authentication"},
		{"etcd", "3.6.16", "3.6.0", "3.8.0", "version_unknown", "release notes"},
		{"etcd", "3.6.16", "3.6.0", "", "version_unknown", "set `version`"},
		{"etcd", "", "", "3.6.16", "", ""},
		{"etcd", "", "3.6.0", "3.5.35", "way_back_closed!", "downgrade enable"}, // the server is down, its record knows the data

		{"PostgreSQL", "4.1.5", "15", "18", "data_unreadable!", "PostgreSQL 18 cannot open this disk, which PostgreSQL 15 wrote"},
		{"PostgreSQL", "4.1.5", "15", "17.2", "data_unreadable!", "new group"},
		{"PostgreSQL", "4.1.5", "17", "15", "data_unreadable!", "PostgreSQL 15 cannot open"},
		{"PostgreSQL", "4.1.5", "15", "15.14", "", ""},
		{"PostgreSQL", "4.1.5", "", "17", "", ""}, // Patroni's version is not PostgreSQL's
		{"PostgreSQL", "4.1.5", "15", "latest", "version_unknown", "tag the image"},

		{"Patroni", "3.3.11", "15", "4.1.5", "version_note", "synchronous_mode"},
		{"Patroni", "4.1.5", "15", "3.3.11", "version_note", "synchronous_mode"},
		{"Patroni", "4.1.4", "15", "4.1.5", "", ""},

		{"Consul", "1.20.6", "", "1.22.7", "version_note", "snapshot"},
		{"Consul", "1.22.7", "", "1.20.6", "version_note", "snapshot"},
		{"Consul", "1.18.2", "", "1.22.7", "version_skipped", "go to 1.20 first"},
		{"Consul", "1.22.3", "", "1.22.7", "", ""},

		{"Kafka", "4.0.0", "4.0-IV3", "4.1.0", "no_way_back", "metadata.version"},
		{"Kafka", "4.1.0", "4.1-IV1", "4.0.0", "way_back_closed!", "kafka-features downgrade"},
		{"Kafka", "4.1.0", "4.0-IV3", "4.0.0", "", ""},
	} {
		got, says := "", ""
		for _, f := range target(t, row.software, row.to).Judge([]Member{{Slot: "m-0", Version: row.runs, Data: row.data}}) {
			mark := ""
			if f.Refused {
				mark = "!"
			}
			got, says = strings.TrimSpace(fmt.Sprint(got, " ", f.Code, mark)), says+f.String()
		}
		if got != row.want || !strings.Contains(says, row.says) {
			t.Errorf("%s %s on data %q to %s: %q, want %q and %q\n%s", row.software, row.runs, row.data, row.to, got, row.want, row.says, says)
		}
	}
}

func TestTheLastMemberCannotGoBack(t *testing.T) {
	to := target(t, "etcd", "3.6.16")
	old, updated, silent := Member{Slot: "e-0", Version: "3.5.35"}, Member{Slot: "e-1", Version: "3.6.16"}, Member{Slot: "e-2"}
	for name, row := range map[string]struct {
		m      Member
		others []Member
		want   bool
	}{
		"all others are updated":      {old, []Member{updated, updated}, true},
		"another is of the old one":   {old, []Member{updated, old}, false},
		"another is unknown":          {old, []Member{updated, silent}, true},
		"it is the only one":          {old, nil, true},
		"it is updated":               {updated, []Member{updated}, false},
		"its own version is unknown":  {silent, []Member{updated}, false},
		"another is still further on": {old, []Member{{Version: "3.7.0"}}, true},
	} {
		f, got := to.Irreversible(row.m, func() []Member { return row.others })
		if got != row.want || got && (!strings.Contains(f.Message, "downgrade enable 3.5") || !slices.Equal(f.Slots, []string{"e-0"})) {
			t.Errorf("%s: %t, %+v", name, got, f)
		}
	}
	// Where the step decides alone, the others are not asked for: nil would end the test.
	if _, got := target(t, "etcd", "3.5.36").Irreversible(old, nil); got {
		t.Error("a patch release cannot be undone")
	}
	if _, got := target(t, "Kafka", "4.1.0").Irreversible(Member{Version: "4.0.0"}, nil); got {
		t.Error("the rollout of Kafka is no point of no return: an operator's command is")
	}
}

const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"

func spec(kind, image, set string) group.Spec {
	s := group.Spec{Workload: group.Workload{Kind: kind}}
	s.Template.Compose = "services:\n  agent:\n    image: example/cadre-agent:dev" + digest + "\n  w:\n    image: " + image + digest + "\n"
	if set != "" {
		s.Workload.Settings = map[string]string{group.SettingVersion: set}
	}
	return s
}

func TestTargets(t *testing.T) {
	for name, row := range map[string]struct {
		spec group.Spec
		want string
	}{
		"a tag":                            {spec("etcd", "quay.io/coreos/etcd:v3.6.16", ""), "etcd 3.6.16"},
		"a port is no tag":                 {spec("etcd", "registry.example:5000/etcd", ""), "etcd"},
		"the setting overrides":            {spec("etcd", "quay.io/coreos/etcd:v3.6.16", "3.5.35"), "etcd 3.5.35"},
		"an image of one's own":            {spec("etcd", "example/cadre-etcd:dev", ""), "etcd"},
		"an image of one's own, by name":   {spec("etcd", "example/cadre-etcd:dev", "3.6.16"), "etcd 3.6.16"},
		"PostgreSQL":                       {spec("patroni", "postgres:17.2-bookworm", ""), "PostgreSQL 17.2"},
		"Patroni in an image named so":     {spec("patroni", "example/patroni:4.1.5", "15"), "Patroni 4.1.5, PostgreSQL 15"},
		"Kafka behind an adapter":          {spec("custom", "apache/kafka:4.1.0", ""), "Kafka 4.1.0"},
		"another software":                 {spec("custom", "nats:2.11.8", ""), ""},
		"no driver":                        {spec("none", "postgres:17.2", ""), ""},
		"a text that is no compose file":   {group.Spec{Workload: group.Workload{Kind: "etcd"}, Template: group.Template{Compose: "\x00"}}, "etcd"},
		"a setting that is no version":     {spec("etcd", "quay.io/coreos/etcd:v3.6.16", "newest"), "etcd"},
		"an image with etcd in its folder": {spec("etcd", "etcd/other:v3.6.16", ""), "etcd"},
	} {
		var got []string
		for _, t := range Targets(row.spec) {
			got = append(got, strings.TrimSpace(t.Rules.Software+" "+t.Version.String()))
		}
		if s := strings.Join(got, ", "); s != row.want {
			t.Errorf("%s: %q, want %q", name, s, row.want)
		}
	}
}

// TestWhichImageIsTheServer: an image of the software next to the workload's own one is another program, and where more
// than one could be the server, the finding says how to name the version.
func TestWhichImageIsTheServer(t *testing.T) {
	with := func(s group.Spec, service, image string) group.Spec {
		s.Template.Compose += "  " + service + ":\n    image: " + image + digest + "\n"
		return s
	}
	for name, row := range map[string]struct {
		spec       group.Spec
		want, says string
	}{
		"next to Patroni":            {with(spec("patroni", "example/patroni:4.1.5", ""), "dump", "postgres:17"), "", "as the tag of the image of service w (example/patroni:4.1.5) does not: set `version`"},
		"before Patroni":             {with(spec("patroni", "postgres:17", ""), "db", "example/patroni:4.1.5"), "", "service db (example/patroni:4.1.5)"},
		"next to Spilo":              {with(spec("patroni", "zalando/spilo-15:3.0", ""), "dump", "postgres:17"), "", "service w (zalando/spilo-15:3.0)"},
		"next to Patroni, and named": {with(spec("patroni", "example/patroni:4.1.5", "15"), "dump", "postgres:17"), "15", ""},
		"two of one version":         {with(spec("patroni", "postgres:17", ""), "dump", "postgres:17"), "17", ""},
		"two versions":               {with(spec("patroni", "postgres:15", ""), "dump", "postgres:17"), "", "give one tag to the images of service w (postgres:15) and service dump (postgres:17), or set `version`"},
		"two versions of Kafka":      {with(spec("custom", "kafka:4.0.0", ""), "c", "kafka:4.1.0"), "", "give one tag to the images of service w (kafka:4.0.0) and service c (kafka:4.1.0)"},
		"another name":               {with(spec("patroni", "example/patronimic:4.1.5", ""), "db", "postgres:17"), "17", ""},
	} {
		targets := Targets(row.spec)
		last := targets[len(targets)-1]
		if last.Version.String() != row.want {
			t.Errorf("%s: %q, want %q", name, last.Version, row.want)
		}
		if found := Texts(last.Judge([]Member{{Slot: "m-0", Version: "4.0.0", Data: "15"}})); row.says != "" && (len(found) != 1 || !strings.Contains(found[0], row.says)) {
			t.Errorf("%s: %q, want %q", name, found, row.says)
		}
	}
	sole := Targets(spec("patroni", "postgres:17", ""))[0].Judge([]Member{{Slot: "m-0", Data: "15"}})
	if len(sole) != 1 || !sole[0].Refused || !strings.Contains(sole[0].Message, "that of service w (postgres:17): if the workload's server is another one, set `version`") {
		t.Errorf("a refusal by the tag: %+v", sole)
	}
}

func TestAnEditIsJudgedByTheVersionsOfBothSpecs(t *testing.T) {
	for name, row := range map[string]struct {
		old, next group.Spec
		want      string
	}{
		"a skip":                 {spec("etcd", "etcd:v3.5.35", ""), spec("etcd", "etcd:v3.7.3", ""), "version_skipped"},
		"a major version":        {spec("patroni", "postgres:15.4", ""), spec("patroni", "postgres:17.2", ""), "data_unreadable"},
		"nothing is named":       {spec("etcd", "e:1", ""), spec("etcd", "e:2", ""), ""},
		"no longer named":        {spec("etcd", "etcd:v3.5.35", ""), spec("etcd", "e:2", ""), "version_unknown"},
		"named for the first":    {spec("etcd", "e:1", ""), spec("etcd", "etcd:v3.7.3", ""), ""},
		"another kind":           {spec("none", "etcd:v3.5.35", ""), spec("etcd", "etcd:v3.7.3", ""), ""},
		"back, on unknown data":  {spec("etcd", "etcd:v3.6.16", ""), spec("etcd", "etcd:v3.5.35", ""), "way_back_closed"},
		"a patch of the version": {spec("etcd", "etcd:v3.6.15", ""), spec("etcd", "etcd:v3.6.16", ""), ""},
	} {
		got := strings.Join(Texts(Edit(row.old, row.next)), "; ")
		if row.want == "data_unreadable" && !strings.Contains(got, "that of service w") {
			t.Errorf("%s: no way out: %q", name, got)
		}
		if !strings.HasPrefix(got, row.want) || row.want == "" && got != "" || strings.Contains(row.want, "closed") && !strings.Contains(got, "if the data") {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestTheRulesAreWhole: the files hold no rule that could never apply, and each has its source.
func TestTheRulesAreWhole(t *testing.T) {
	if rules, err := load(); err != nil || len(rules) != 5 {
		t.Fatalf("%d files are read: %v", len(rules), err)
	}
	for _, r := range All() {
		lines := slices.Clone(r.Lines)
		slices.SortFunc(lines, func(a, b string) int {
			x, _ := version.Parse(a)
			y, _ := version.Parse(b)
			return x.Compare(y)
		})
		if r.Software == "" || len(r.Kinds) == 0 || len(r.Images) == 0 || len(lines) < 2 || !slices.Equal(lines, r.Lines) || len(slices.Compact(lines)) != len(r.Lines) {
			t.Errorf("%s: kinds %v, images %v, lines %v", r.Software, r.Kinds, r.Images, r.Lines)
		}
		for _, l := range r.Lines {
			if v, ok := version.Parse(l); !ok || v.Line(r.LineParts) != l {
				t.Errorf("%s: line %q", r.Software, l)
			}
		}
		if r.Jump.Why == "" || r.Jump.Source == "" || r.Jump.Most < 0 || r.Jump.Most == 0 && len(r.Steps) > 0 {
			t.Errorf("%s: jump %+v", r.Software, r.Jump)
		}
		for _, kind := range r.Kinds {
			has := slices.ContainsFunc(group.SettingsOf(kind), func(s group.Setting) bool { return s.Name == group.SettingVersion })
			if r.Setting && !has {
				t.Errorf("%s: workload %s has no setting %s", r.Software, kind, group.SettingVersion)
			}
		}
		for _, s := range r.Steps {
			each := s.From == "" && s.To == ""
			from, to := slices.Index(r.Lines, s.From), slices.Index(r.Lines, s.To)
			first, ok := version.Parse(s.First)
			switch {
			case !each && (from < 0 || to != from+1):
				t.Errorf("%s: %s to %s are no neighbours", r.Software, s.From, s.To)
			case s.Source == "" || s.Back == "" || (s.NoReturn != "") != (s.Lost != "") || s.NoReturn != "" && s.NoReturn != LastMember && s.NoReturn != Operator:
				t.Errorf("%s: %+v", r.Software, s)
			case s.First != "" && (!ok || first.Line(r.LineParts) != s.From || s.FirstWhy == ""):
				t.Errorf("%s: first %q", r.Software, s.First)
			}
		}
	}
}
