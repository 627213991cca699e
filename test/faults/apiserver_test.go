package faults

import "syscall"

// apiServerRestarted: the API server stops during fifty repairs, while kubelets write heartbeats, and comes back.
// Fettle continues without help.
func apiServerRestarted(signal syscall.Signal) func(*machineFixture) {
	return func(s *machineFixture) {
		well, ill := names("well", 10), names("ill", 50)
		s.addMachines(append(well, ill...))
		s.heartbeats(append(well, ill...))
		s.healthCheck("example", 10)
		s.StartFettle(s.t)
		s.wantStatus("example", 60, 60, "")
		s.longBroken(ill)
		s.wantGone(12)
		s.Restart(s.t, signal)
		s.wantRepaired()
		s.wantStatus("example", 10, 10, "")
		s.verify(10)
		s.tellsTheTruth()
	}
}

// slowWrites: an API server with slow admission, as with webhooks, changes no limit.
func slowWrites(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		proxy.Inject(s.t, faultSlow(method))
	}
	ill := names("ill", 20)
	s.addMachines(append(names("well", 4), ill...))
	s.heartbeats(names("well", 4))
	s.healthCheck("example", 3)
	s.StartFettleWith(s.t, kubeconfig)
	s.longBroken(ill)
	s.wantRepaired()
	s.wantStatus("example", 4, 4, "")
	s.verify(3)
	s.tellsTheTruth()
}
