"""The record: one file with everything that happened to a scheduler, from which any moment can be restored.

Writing. :class:`mooring.record.recorder.Recorder` is a ``SchedulerObserver``. Give it to a scheduler, and it records
everything: objects, attempts, queue moves, bindings::

    recorder = Recorder.to_file("run.mrec", source="simulation")
    simulate(objects, arrivals, observers=[recorder])
    recorder.note("zone a fails")        # markers, if you like
    recorder.close()

It takes the configuration, the version and the clock from the scheduler that it observes.

Reading. :class:`mooring.record.reader.Record`::

A record that begins in the middle of a cluster's life begins with a ``Put`` for each existing object.

A record that begins in the middle of a cluster's life begins with a ``Put`` for each existing object.

The format, its writers and its readers belong here. Measures, reports and pages are elsewhere.
"""
