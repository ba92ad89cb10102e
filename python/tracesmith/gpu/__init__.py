"""GPUs of any vendor as devices that work can be given to: ``clustering`` chooses among them and splits work over them,
``telemetry_protocol`` has what they report.

>>> from tracesmith.gpu.clustering import GPUClusteringManager, GPUDevice
>>> manager = GPUClusteringManager()
>>> manager.register_device(GPUDevice(device_id="cuda:0", vendor="nvidia", memory_bytes=24_000_000_000))
>>> [device.device_id for device in manager.list_devices()]
['cuda:0']
>>> manager.select_best_device() is None    # it has not reported anything yet
True
"""
