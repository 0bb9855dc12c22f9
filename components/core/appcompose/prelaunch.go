package appcompose

// PreLaunchScript is the pre_launch_script of every document that Cadre renders. Phala Cloud
// adds a script of its own to a document that names none, and that script changes with the
// platform's releases: the platform would measure other bytes than Cadre sent. A script that
// is given is kept. The guest runs the text as root before the services, so it does nothing.
//
// The bytes are measured: an edit changes the compose hash of every Revision.
const PreLaunchScript = `# Cadre runs nothing here. A platform adds a script of its own where this text is missing.
true
`
