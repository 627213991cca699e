// Package stage runs the environment of a demo or a benchmark: a sandbox and Fettle, from the binaries that make build
// makes, and an administrator's client. Everything that it starts ends with it, the last started first.
//
//	s, err := stage.New("fettle-demo-")
//	defer s.Strike()
//	err = s.StartSandbox(ctx, "--kubelets", "--machine-api")
//	err = s.InstallFettle(ctx)
//	fettle, err := s.StartFettle(ctx, "--leader-elect=false")
package stage
