"""The record: one file with everything that happened to a scheduler, from which any moment can be opened again.

Writing. :class:`mooring.record.recorder.Recorder` is a ``SchedulerObserver``. Give it to a scheduler, and it records
everything: objects, attempts, queue moves, bindings::

    recorder = Recorder.to_file("run.mrec", source="simulation")
    simulate(objects, arrivals, observers=[recorder])
    recorder.note("zone a fails")        # markers, if you like
    recorder.close()

It takes the configuration, the version and the clock from the scheduler that it observes.

Reading. :class:`mooring.record.reader.Record`::

    record = Record.open("run.mrec")
    record.header                        # entries.Header: versions, configuration, who recorded
    for time, entry in record.entries(): # seconds since the epoch, and a struct of entries.py
        match entry:
            case Put(object=Pod() as pod): ...
            case Attempt(key=key, node=node): ...
    record.first_time, record.last_time, record.num_attempts
    record.entries(since=t0, until=t1)   # begins at the nearest keyframe: quick anywhere in the file
    record.attempt(17)                   # a Moment: the cluster and the queue just before attempt 17, and its entry
    record.moment(time)                  # a Moment: .cluster (mooring.Cluster), .queue, .assumed, .nominations
    moment.decide(), moment.explain()    # the recorded configuration decides again

A record that begins in the middle of a cluster's life begins with a ``Put`` for each existing object.

The format, its writers and its readers belong here. Measures, reports and pages are elsewhere.
"""
