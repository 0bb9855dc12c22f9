package declared

import (
	"reflect"
	"strings"
	"testing"
)

const good = `services:
  cadre:
    image: agent
    volumes:
      - mesh:/run/mesh
      - exec-db:/run/cadre-exec/db
  db:
    image: db
    command: [/run/mesh/exec, --, postgres]
    volumes:
      - mesh:/run/mesh
      - {type: volume, source: exec-db, target: /run/cadre-exec}
    x-cadre:
      exec:
        drain: [/usr/local/bin/drain, --now, "5"]
        ready: [pg_isready]
  web:
    image: web
volumes:
  data:
  mesh:
    driver_opts: { type: tmpfs, device: tmpfs }
  exec-db:
    driver: local
    driver_opts: { type: tmpfs, device: tmpfs }
`

func TestReadReturnsTheDeclaredCommands(t *testing.T) {
	got, problems := Read(good)
	want := Commands{"db": {"drain": {"/usr/local/bin/drain", "--now", "5"}, "ready": {"pg_isready"}}}
	if len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, problems)
	}
	if got.Names("db") != "drain, ready" || got.Names("web") != "" {
		t.Errorf("names %q", got.Names("db"))
	}
	if got, problems := Read("services:\n  web:\n    image: x\n"); len(got) > 0 || len(problems) > 0 {
		t.Errorf("%v, %v", got, problems)
	}
}

func TestTheAgentsScriptIsAStartToo(t *testing.T) {
	accepted(t, "command: [/run/mesh/exec, --,", "command: [/run/mesh/exec.sh, --hosts, --user=70, --,")
}

// TestHK03_OnlyLiteralWordsOfTheTextAreRun: each change of a good text is rejected at its place,
// and then no command of it is run.
func TestHK03_OnlyLiteralWordsOfTheTextAreRun(t *testing.T) {
	const drain = `drain: [/usr/local/bin/drain, --now, "5"]`
	refusals(t, []refusal{
		{drain, `drain: [/bin/sh, -c, "echo ${X}"]`, "services.db.x-cadre.exec.drain[2]"},
		{drain, `drain: [/bin/sh, -c, "echo $$X"]`, "services.db.x-cadre.exec.drain[2]"},
		{drain, "drain: [sleep, 5]", "services.db.x-cadre.exec.drain[1]"},
		{drain, "drain: [sleep, [a]]", "services.db.x-cadre.exec.drain[1]"},
		{drain, "drain: []", "services.db.x-cadre.exec.drain"},
		{drain, `drain: [""]`, "services.db.x-cadre.exec.drain"},
		{drain, "drain: /bin/drain --now", "services.db.x-cadre.exec.drain"},
		{drain, "drain:", "services.db.x-cadre.exec.drain"},
		{drain, "drain: [" + strings.Repeat("a, ", 65) + "b]", "services.db.x-cadre.exec.drain"},
		{drain, "drain: [a" + strings.Repeat("a", 5000) + "]", "services.db.x-cadre.exec.drain"},
		{drain, "Drain: [a]", "services.db.x-cadre.exec.Drain"},
		{drain, `"../up": [a]`, "services.db.x-cadre.exec.../up"},
		{drain, "ready: [a]", "compose"}, // twice
		{"      exec:\n", "      shell: yes\n      exec:\n", "services.db.x-cadre.shell"},
		{"      exec:\n", "      logs: yes\n      exec:\n", "services.db.x-cadre.logs"},
		{"      exec:\n", "      logs: \"true\"\n      exec:\n", "services.db.x-cadre.logs"},
		{"      exec:\n", "      logs: {all: true}\n      exec:\n", "services.db.x-cadre.logs"},
		{"      exec:\n", "      commands: {vacuum: vacuumdb}\n      exec:\n", "services.db.x-cadre.commands.vacuum"},
		{"      exec:\n", "      commands: {vacuum: [a, $B]}\n      exec:\n", "services.db.x-cadre.commands.vacuum[1]"},
		{"      exec:\n", "      commands:\n      exec:\n", "services.db.x-cadre.commands"},
		{"    command: [/run/mesh/exec, --, postgres]\n", "    command: [postgres]\n", "services.db.command"},
		{"    command: [/run/mesh/exec, --, postgres]\n", "    command: /run/mesh/exec -- postgres\n", "services.db.command"},
		{"    command: [/run/mesh/exec, --, postgres]\n", "", "services.db.command"},
		{"    command: [/run/mesh/exec, --, postgres]\n", "    command: [/etc/cadre/exec.sh, --, postgres]\n", "services.db.configs"},
		{"    command:", "    entrypoint: [sh]\n    command:", "services.db.entrypoint"},
		{"  web:\n    image: web\n", "  web:\n    image: web\n    x-cadre:\n", "services.web.x-cadre"},
		{"    image: agent\n", "    image: agent\n    x-cadre: {exec: {a: [b]}}\n", "services.cadre.x-cadre"},
		{"volumes:\n  data:\n", "x-cadre: {exec: {a: [b]}}\nvolumes:\n  data:\n", "x-cadre"},
	})
}

func TestCommandsReachAServiceFromTheAgentAlone(t *testing.T) {
	const web = "  web:\n    image: web\n"
	const agents = "      - exec-db:/run/cadre-exec/db\n"
	const services = "      - {type: volume, source: exec-db, target: /run/cadre-exec}\n"
	const declaration = "  exec-db:\n    driver: local\n    driver_opts: { type: tmpfs, device: tmpfs }\n"
	refusals(t, []refusal{
		{web, web + "    volumes: [exec-db:/x]\n", "services.web.volumes"},
		{web, web + "    volumes: [exec-db:/run/cadre-exec]\n", "services.web.volumes"},
		{web, web + "    volumes: [{type: volume, source: exec-db, target: /x}]\n", "services.web.volumes"},
		{web, web + "    volumes: [data:/run/cadre-exec]\n", "services.web.volumes"},
		{web, web + "    volumes_from: [db]\n", "services.web.volumes_from"},
		{web, web + "    pid: service:db\n", "services.web.pid"},
		{agents, "", "services.cadre.volumes"},
		{agents, "      - data:/run/cadre-exec/db\n", "services.db.volumes"},
		{agents, agents + "      - exec-db:/elsewhere\n", "services.cadre.volumes"},
		{agents, agents + "      - mesh:/run/cadre-exec/web\n", "services.cadre.volumes"},
		{agents, agents + "      - mesh:/run/cadre-exec\n", "services.cadre.volumes"},
		{agents, agents + "      - mesh:/var/run/cadre-exec/x\n", "services.cadre.volumes"},
		{services, "", "services.db.volumes"},
		{services, services + "      - exec-db:/elsewhere\n", "services.db.volumes"},
		{services, "      - exec-db:/run/cadre-exec:ro\n", "services.db.volumes"},
		{services, "      - /srv:/run/cadre-exec\n", "services.db.volumes"},
		{declaration, "  exec-db:\n", "volumes.exec-db"},
		{declaration, declaration + "    name: other\n", "volumes.exec-db.name"},
		{declaration, declaration + "    external: true\n", "volumes.exec-db.external"},
		{"  data:\n", "  data:\n    name: dstack_exec-db\n", "volumes.data.name"},
		{"  data:\n", "  data: {external: true}\n", "volumes.data.external"},
	})
	// Two services with commands and one folder.
	two := strings.Replace(good, web, web+"    command: [/run/mesh/exec, --, a]\n    volumes: [exec-db:/run/cadre-exec]\n    x-cadre: {exec: {a: [b]}}\n", 1)
	two = strings.Replace(two, agents, agents+"      - exec-db:/run/cadre-exec/web\n", 1)
	if got, problems := Read(two); got != nil || len(problems) == 0 {
		t.Errorf("two services share a folder: %v", got)
	}
}

// TestHK03_NoSharedProcessesLeadToTheCommands: a service can reach /proc/<pid>/root of each process
// in its namespace, whichever of the two declares the sharing.
func TestHK03_NoSharedProcessesLeadToTheCommands(t *testing.T) {
	const web = "  web:\n    image: web\n"
	const db = "    image: db\n"
	const agent = "    image: agent\n"
	refusals(t, []refusal{
		{db, db + "    pid: service:web\n", "services.db.pid"},
		{db, db + "    pid: host\n", "services.db.pid"},
		{db, db + "    pid: \"\"\n", "services.db.pid"},
		{agent, agent + "    pid: service:web\n", "services.cadre.pid"},
		{web, web + "    pid: service:cadre\n", "services.web.pid"},
		{web, web + "    pid: host\n", "services.web.pid"},
		{web, web + "    pid: container:x\n", "services.web.pid"},
	})
	accepted(t, web, web+"    pid: service:other\n  other:\n    image: x\n")
	accepted(t, db, db+"    ipc: shareable\n") // no processes, no files
}

// TestHK03_NoFileOfTheGuestLeadsToTheCommands: the engine keeps volumes in folders of the guest,
// which secrets, configs, binds and volumes' options could name.
func TestHK03_NoFileOfTheGuestLeadsToTheCommands(t *testing.T) {
	const web = "  web:\n    image: web\n"
	const db = "    image: db\n"
	const volume = "/var/lib/docker/volumes/dstack_exec-db/_data"
	const data = "  data:\n"
	refusals(t, []refusal{
		{web, web + "    secrets: [g]\nsecrets: {g: {file: " + volume + "}}\n", "secrets.g.file"},
		{web, web + "    configs: [g]\nconfigs: {g: {file: " + volume + "}}\n", "configs.g.file"},
		{web, web + "    volumes: ['" + volume + ":/x']\n", "services.web.volumes"},
		{web, web + "    volumes: [{type: bind, source: " + volume + ", target: /x}]\n", "services.web.volumes"},
		{web, web + "    volumes: [{type: bind, source: persistent/x, target: /x}]\n", "services.web.volumes"},
		{web, web + "    volumes: ['./persistent:/x']\n", "services.web.volumes"},
		{db, db + "    secrets: [{source: g, target: /run/cadre-exec/x}]\n", "services.db.secrets"},
		{db, db + "    configs: [{source: g, target: /var/run/cadre-exec/x}]\n", "services.db.configs"},
		{db, db + "    secrets: [{source: g, target: ../cadre-exec/x}]\n", "services.db.secrets"},
		{db, db + "    tmpfs: /run/cadre-exec\n", "services.db.tmpfs"},
		{db, db + "    tmpfs: ['/run/cadre-exec/:mode=700']\n", "services.db.tmpfs"},
		{data, "  data:\n    driver_opts: {type: none, o: bind, device: " + volume + "}\n", "volumes.data.driver_opts"},
		{data, "  data:\n    driver_opts: {type: none, o: rbind, device: x}\n", "volumes.data.driver_opts"},
		{data, "  data: {driver: other}\n", "volumes.data.driver"},
		{"  exec-db:\n    driver: local\n    driver_opts: { type: tmpfs,", "  exec-db:\n    driver_opts: { type: tmpfs, o: bind,", "volumes.exec-db"},
	})
	accepted(t, web, web+"    configs: [g]\n    tmpfs: /tmp\nconfigs: {g: {content: a}}\n")
	accepted(t, "      - exec-db:/run/cadre-exec/db\n", "      - exec-db:/run/cadre-exec/db\n      - /var/run/dstack.sock:/var/run/dstack.sock\n")
}

func accepted(t *testing.T, old, replacement string) {
	t.Helper()
	if got, problems := Read(strings.Replace(good, old, replacement, 1)); len(problems) > 0 || got == nil {
		t.Errorf("%q: %v", replacement, problems)
	}
}

type refusal struct{ old, replacement, path string }

func refusals(t *testing.T, list []refusal) {
	t.Helper()
	for _, c := range list {
		if strings.Count(good, c.old) != 1 {
			t.Fatalf("%q stands not once", c.old)
		}
		got, problems := Read(strings.Replace(good, c.old, c.replacement, 1))
		found := false
		for _, p := range problems {
			found = found || p.Path == c.path
			if p.Node == nil || p.Message == "" || p.Fix == "" {
				t.Errorf("problem %+v", p)
			}
		}
		if !found || got != nil {
			t.Errorf("%q for %q: problems %v, want one at %s; commands %v", c.replacement, c.old, problems, c.path, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add("services: &a\n  db: *a\n")
	f.Add("x-cadre: {}\nservices: {db: {x-cadre: {exec: {a: [b]}}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, problems := Read(text)
		if len(problems) > 0 && got != nil {
			t.Fatal("commands of a text with problems")
		}
		for _, names := range got {
			for _, argv := range names {
				if len(argv) == 0 || strings.Contains(strings.Join(argv, ""), "$") {
					t.Fatalf("argv %q", argv)
				}
			}
		}
	})
}

func TestOperatorsCommandsAndLogsAreDeclared(t *testing.T) {
	open := strings.Replace(good, "      exec:\n", "      logs: true\n      commands: {vacuum: [vacuumdb, --all]}\n      exec:\n", 1)
	all, problems := ReadAll(open)
	if len(problems) > 0 || !reflect.DeepEqual(all.Run, Commands{"db": {"vacuum": {"vacuumdb", "--all"}}}) || !reflect.DeepEqual(all.Logs, []string{"db"}) || len(all.Exec["db"]) != 2 {
		t.Errorf("%+v, %v", all, problems)
	}
	// Without exec the agent may restart the service as with an empty one.
	begin, end := strings.Index(good, "      exec:\n"), strings.Index(good, "  web:\n")
	only := good[:begin] + "      logs: true\n" + good[end:]
	all, problems = ReadAll(only)
	if len(problems) > 0 || all.Exec["db"] == nil || len(all.Logs) != 1 || all.Run["db"] != nil {
		t.Errorf("%+v, %v", all, problems)
	}
	if all, _ = ReadAll(strings.Replace(only, "logs: true", "logs: false", 1)); all.Logs != nil {
		t.Errorf("closed logs are open: %+v", all)
	}
	if _, problems = ReadAll(strings.Replace(only, "    image: db\n", "    image: db\n    tty: true\n", 1)); len(problems) != 1 || problems[0].Path != "services.db.x-cadre.logs" {
		t.Errorf("a terminal's output: %v", problems)
	}
}
